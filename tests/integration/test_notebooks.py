"""The cells in docs/notebooks.md give the output on the page, and its VS Code tasks run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.test_project import missing_lines
from tests.unit.notebook.shells import Shell

PAGE = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
CELL = re.compile(r"^In \[\d+\]: ", re.MULTILINE)
STYLE = re.compile(r"\x1b\[[\d;]*m")


def blocks(language: str) -> list[str]:
    """Return the page's blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_cells_match_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    shell = Shell(notebook=True)
    # The page's first cell loads the extension.
    shell.ipython.run_line_magic("unload_ext", "memreplay")
    cells = [cell for block in blocks("ipython") for cell in CELL.split(block)[1:]]
    assert len(cells) >= 7
    for cell in cells:
        code, *shown = cell.splitlines()
        done = shell(code)
        assert done.error is None
        assert not missing_lines(shown, STYLE.sub("", done.out + done.err)), code
        if not shown:
            assert not done.out


def tasks() -> dict[str, Any]:
    (block,) = blocks("json")
    return {task["label"]: task for task in json.loads(block)["tasks"]}


def run(task: dict[str, Any], file: Path) -> subprocess.CompletedProcess[str]:
    """Run a task as VS Code does: as a process, with variables in its arguments replaced."""
    assert (task["type"], task["command"]) == ("process", "memreplay")
    words = [word.replace("${file}", str(file)) for word in task["args"]]
    assert not any("${" in word for word in words)
    return subprocess.run(
        [sys.executable, "-m", "memreplay", *words],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "/usr/bin:/bin"},  # no display
    )


@pytest.mark.slow
def test_vs_code_tasks_run(tmp_path: Path) -> None:
    file = tmp_path / "my $(snap) & 'é'.pkl.gz"
    file.write_bytes((ROOT / "examples" / "transformer_step.pkl.gz").read_bytes())
    found = tasks()
    assert set(found) == {"memreplay: view", "memreplay: report"}
    assert "device 0: peak 5.2 GiB" in run(found["memreplay: report"], file).stdout
    for _ in range(2):
        run(found["memreplay: view"], file)
        assert Path(f"{file}.html").read_bytes().startswith(b"<!doctype html>")
    assert sorted(tmp_path.iterdir()) == sorted([file, Path(f"{file}.html")])
