"""`memreplay dryrun --change` does what the same change in the program's source does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.integration.dry import PYTHON, dryrun, marks, of_memreplay, reported

pytestmark = marks

SETTINGS = """
import sys, torch
by_hand = sys.argv[1:]
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
given = {"foreach": False} if "foreach" in by_hand else {}
if "fused" in by_hand:
    given = {"fused": True}
optimizer = torch.optim.AdamW(model.parameters(), **given)
scaler = torch.amp.GradScaler("cuda")
x = torch.randn(64, 512, device="cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.float16, cache_enabled="cache" not in by_hand):
        loss = (model(x) + model(2 * x)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none="none" in by_hand)
"""
LAYERS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(64, 64)) for _ in range(4))
    def forward(self, x):
        for layer in self.h:
            x = layer(x)
        return x
Net().cuda()(torch.randn(8, 64, device="cuda", requires_grad=True)).sum().backward()
"""


def trained(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return each kind's peaks on the card, and its results on the host."""
    out = folder / "trained.json"
    program = (PYTHON, "-m", "tests.truth.changed", str(out), *arguments)
    done = dryrun(folder, "--force", *options, "--", *program, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_checkpointed_modules_are_as_if_checkpointed_by_hand(tmp_path: Path) -> None:
    unchanged = trained(tmp_path)
    by_hand = trained(tmp_path, "--by-hand")
    changed = trained(tmp_path, options=("--change", "checkpoint=blocks.*"))
    assert len(changed) >= 18
    # the memory, and the number of allocations, as by hand
    assert changed == by_hand
    # losses, gradients and parameters on the host, bit by bit, as without
    assert {name: one["host"] for name, one in changed.items()} == {
        name: one["host"] for name, one in unchanged.items()
    }
    less = {
        name
        for name, one in changed.items()
        if one["requested_bytes"] < unchanged[name]["requested_bytes"]
    }
    assert less == set(changed) - {"already"}


@pytest.mark.parametrize(
    "changes, by_hand, names",
    [
        (("foreach=off", "set-to-none"), ("foreach", "none"), [["AdamW"], ["AdamW.zero_grad"]]),
        (("fused=on", "autocast-cache=off"), ("fused", "cache"), [["AdamW"], ["autocast"]]),
    ],
)
def test_settings_are_as_if_set_by_hand(
    tmp_path: Path, changes: tuple[str, ...], by_hand: tuple[str, ...], names: list[list[str]]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(SETTINGS)
    options = [word for change in changes for word in ("--change", change)]
    code, changed = reported(tmp_path, *options, "--", PYTHON, str(program))
    assert code == 0
    assert [one["names"] for one in changed["program_changes"]] == names
    (process,) = changed["processes"]
    _, other = reported(tmp_path, "--", PYTHON, str(program), *by_hand)
    (expected,) = other["processes"]
    assert process["sizes_digest"] == expected["sizes_digest"]
    assert process["devices"] == expected["devices"]


def test_change_of_nothing_fails_with_similar_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LAYERS)
    done = dryrun(tmp_path, "--change", "checkpoint=layers.*", "--", PYTHON, str(program))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = of_memreplay(done)
    assert line == (
        "memreplay: error: --change checkpoint=layers.* changed nothing: no module matches"
        " layers.*; similar: h.*"
    )
    assert not (tmp_path / "out.pickle").exists()


def test_changes_are_compared(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LAYERS)
    names = "unchanged,checkpoint=h.*,checkpoint=h.*[::2]"
    done = dryrun(tmp_path, "--json", "--compare", names, "--", PYTHON, str(program))
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [one["name"] for one in runs] == names.split(",")
    assert [[len(each["names"]) for each in one["report"]["program_changes"]] for one in runs] == [
        [],
        [4],
        [2],
    ]
