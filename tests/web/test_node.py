"""In Pyodide under node, command lines give the same bytes as the native build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.web.conftest import BUILT

pytestmark = pytest.mark.browser

COLUMNS = 100  # as in web/run.mjs
EACH = (
    *("report", "summary", "peak", "peak --by line --tree", "oom", "leaks", "steps"),
    *("fragmentation", "allocations", "modules", "simulate --set expandable_segments:True"),
    *("simulate --search card", "timeline", "peak --json", "report --format markdown"),
    *("view -o page.html", "export -o part.pickle --from 10 --to 400", "export -o out.txt"),
    "export -o out.speedscope.json",
)
OTHERS = (
    "diff transformer_step.pkl.gz transformer_deeper.pkl.gz",
    "view transformer_step.pkl.gz transformer_deeper.pkl.gz -o both.html",
    "gate transformer_step.pkl.gz --max-peak 1GiB",
    *("fleet fsdp_odd_ranks", "diff fsdp_ranks fsdp_odd_ranks", "view fsdp_ranks -o run.html"),
    *("peek transformer_step.pkl.gz", "peak --help", "help oom", "help tutorials/out-of-memory"),
    *("at transformer_step.pkl.gz step:2:peak", "timeline transformer_step.pkl.gz --format csv"),
)


def line_of(words: str, file: str) -> str:
    """Put a file after the command's name."""
    name, _, options = words.partition(" ")
    return f"memreplay {name} {file} {options}".rstrip()


LINES = {
    file.name[:-7]: [line_of(words, file.name) for words in EACH]
    for file in sorted(ROOT.glob("examples/*.pkl.gz"))
}
LINES["others"] = [f"memreplay {words}" for words in OTHERS]


@pytest.mark.parametrize("name", LINES)
def test_bytes_are_the_same(name: str, tmp_path: Path) -> None:
    if not (BUILT / "parts").exists() or not shutil.which("node"):
        pytest.skip("the page isn't built: ci/web builds it")
    for one in (ROOT / "examples").iterdir():
        (tmp_path / one.name).symlink_to(one)
    found = in_node(LINES[name])
    for line, ran in zip(LINES[name], found, strict=True):
        done = subprocess.run(
            [sys.executable, "-m", *line.split()],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": str(COLUMNS)},
        )
        assert ran["said"] == done.stderr.decode(), line
        assert (ran["code"], ran["text"]) == (done.returncode, done.stdout.decode()), line
        written = [one for one in tmp_path.iterdir() if not one.is_symlink()]
        assert sorted(ran["written"]) == sorted(one.name for one in written), line
        for one in written:
            assert b64decode(ran["written"][one.name]) == one.read_bytes(), line
            one.unlink()


def in_node(lines: list[str]) -> list[dict[str, Any]]:
    """Run command lines in Pyodide."""
    done = subprocess.run(
        ["node", "run.mjs", str(ROOT / "examples"), *lines],
        capture_output=True,
        check=False,
        cwd=ROOT / "web",
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(one) for one in done.stdout.splitlines()]
