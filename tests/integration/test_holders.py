"""The holders of programs' memory, in a dry run."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.integration.dry import PYTHON, dryrun, marks

pytestmark = marks

MIB = 1 << 20
X = 512 * 512 * 4  # bytes of an activation
# For each leak: its group's kind, name, function and bytes.
LEAKS = {
    "losses": ("variable", "history[…]", "losses", 15 * X),
    "total_loss": ("variable", "total", "total_loss", 15 * X),
    "exception": ("exception", "errors[…] → traceback → fail()", "exception", 16 * MIB),
    "hook": (
        "variable",
        "net._forward_hooks[…] → hook.<locals>.register.<locals>.look().seen",
        "hook",
        8 * MIB,
    ),
    "cycle": ("cycle", "Node", "", 8 * MIB),
    "cached_outputs": ("variable", "computed[…]", "cached_outputs", 8 * MIB),
    "kv_cache": ("variable", "cache.layers['keys'][…]", "kv_cache", 4 * MIB),
    "view": ("variable", "first", "view", 8 * MIB),
    "module_variable": ("variable", "KEPT[…]", "", 8 * MIB),
    "generator": ("variable", "running → prefetched in batches()", "generator", 8 * MIB),
    "attribute": ("variable", "net.last", "attribute", 3 * X),
    "custom_function": ("variable", "output.grad_fn.mask", "custom_function", 8 * MIB),
}
PARAMETERS = 2 * (512 * 512 + 512) * 4
# For each harmless program: the bytes of all its groups by kind and name.
HARMLESS = {
    "clean_training": {
        ("parameters", "net"): PARAMETERS,
        ("gradients", "net"): PARAMETERS,
        ("optimizer state", "optimizer"): 2 * PARAMETERS,
    },
    "clean_zeroed": {
        ("parameters", "net"): PARAMETERS,
        ("optimizer state", "optimizer"): PARAMETERS,
        ("variable", "history[…]"): 8,
        ("variable", "loss"): 4,
    },
    "clean_inference": {("parameters", "net"): PARAMETERS, ("variable", "output"): X},
    "clean_checkpointed": {
        ("parameters", "net"): PARAMETERS,
        ("variable", "x"): X,
        ("variable", "output"): X,
    },
    "clean_buffers": {("parameters", "net"): 4 * 4 * MIB + 8},
    "clean_tied": {("parameters", "net"): PARAMETERS - X},
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("held")
    out = folder / "held.json"
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = dryrun(folder, "--", PYTHON, "-m", "tests.truth.held", str(out), PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, Any]] = json.loads(out.read_text())
    assert set(found) == {*LEAKS, *HARMLESS}
    return found


@pytest.mark.parametrize("name", LEAKS)
def test_leak_names_its_holder(told: dict[str, dict[str, Any]], name: str) -> None:
    kind, words, function, size = LEAKS[name]
    found = [one for one in told[name]["groups"] if one["kind"] == kind and one["name"] == words]
    assert len(found) == 1, told[name]["groups"]
    assert found[0]["function"] == function
    assert size <= found[0]["bytes"] < size + 4096
    if function:
        assert found[0]["file"].endswith("programs.py")
        assert found[0]["line"] > 0


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_program_has_only_what_it_needs(
    told: dict[str, dict[str, Any]], name: str
) -> None:
    groups = {(one["kind"], one["name"]): one["bytes"] for one in told[name]["groups"]}
    assert groups.pop(("unknown", ""), 0) == told[name]["before"]
    assert groups == HARMLESS[name]


def test_groups_add_up(told: dict[str, dict[str, Any]]) -> None:
    for found in told.values():
        assert sum(one["bytes"] for one in found["groups"]) == found["total_bytes"]
        assert found["complete"]
