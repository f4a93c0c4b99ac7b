"""A program that lacks a file or the network is distinguished from other failures."""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memreplay.programs.inside import memreplay_failing as failing
from tests.unit.dryrun.test_sitecustomize import Dry


def of_module(module: str, base: type[Exception] = Exception) -> type[Exception]:
    """Return an exception class that another package defines."""
    return type("SomeError", (base,), {"__module__": module})


def caused(first: Exception, second: Exception) -> Exception:
    """Return the second exception, raised because of the first."""
    try:
        raise second from first
    except type(second) as error:
        return error


HUB, NETWORK = {"kind": "hub", "name": ""}, {"kind": "network", "name": ""}


@pytest.mark.parametrize(
    "error, found",
    [
        (of_module("huggingface_hub.errors", FileNotFoundError)("no"), HUB),
        (caused(of_module("huggingface_hub.errors")(), OSError("can't connect")), HUB),
        (of_module("datasets.exceptions")("no"), HUB),
        (of_module("datasets.mine")("the program's own"), None),
        (of_module("datasets")("the program's own"), None),
        (urllib.error.URLError("no route"), NETWORK),
        (of_module("requests.exceptions")(), NETWORK),
        (caused(of_module("socket")(), RuntimeError("no")), NETWORK),
        (of_module("httpx_of_mine")(), None),
        (ConnectionResetError("of another process"), None),
        (
            FileNotFoundError(2, "No such file", "data/x.bin"),
            {"kind": "folder", "name": "data/x.bin"},
        ),
        (FileNotFoundError(2, "No such file", b"a\xff"), {"kind": "file", "name": "a\udcff"}),
        (FileNotFoundError("nothing found"), {"kind": "file", "name": ""}),
        (FileNotFoundError(2, "No", "x" * 999), {"kind": "file", "name": "x" * 200}),
        (PermissionError(13, "No", "x"), None),
        (ValueError("no"), None),
        (SystemExit(1), None),
    ],
)
def test_what_is_missing_follows_from_the_exceptions(error: BaseException, found: Any) -> None:
    assert failing.missing(error) == found


def test_exceptions_that_cause_each_other_end() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(failing.chain(one)) == [one, other]


def test_weights_of_torch_hub_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "torch/hub.py"
    code = compile("def load():\n    raise error\n", str(path), "exec")
    module = ModuleType("hub")
    module.error = urllib.error.URLError("no")  # type: ignore[attr-defined]
    exec(code, vars(module))
    with pytest.raises(urllib.error.URLError) as raised:
        module.load()
    assert failing.missing(raised.value) == {"kind": "torch.hub", "name": ""}


def test_missing_program_is_not_missing_data() -> None:
    import subprocess

    with pytest.raises(FileNotFoundError) as raised:
        subprocess.run(["no-such-program"], check=False)
    assert failing.missing(raised.value) is None


def noted(dry: Dry, code: str) -> list[Any]:
    done = dry.run(code)
    assert "memreplay" not in done.stderr
    return [json.loads(path.read_text()) for path in dry.out.glob("*.missing")]


@pytest.fixture
def dry(tmp_path: Path) -> Dry:
    return Dry(tmp_path)


def test_failure_is_noted_with_and_without_torch(dry: Dry) -> None:
    name = {"kind": "file", "name": "x.bin"}
    assert noted(dry, "open('x.bin')") == [name]
    assert noted(dry, "import torch; torch.cuda.init(); open('x.bin')") == [name, name]


def test_other_endings_are_not_noted(dry: Dry) -> None:
    assert noted(dry, "1 / 0") == []
    assert noted(dry, "raise SystemExit(2)") == []
    assert noted(dry, "") == []


def test_failure_to_note_is_mentioned(dry: Dry) -> None:
    done = dry.run("import os; os.rmdir(os.environ['MEMREPLAY_DRYRUN']); open('x.bin')")
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'x.bin'" in done.stderr
    assert "memreplay: no hint: " in done.stderr
