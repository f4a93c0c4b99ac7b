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

from tests.build import Snapshot, SnapshotBuilder, dump, round_up
from tests.conftest import ROOT
from tests.hostile import PIECES, hostile_snapshot
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
    check(LINES[name], ROOT / "examples", tmp_path)


LARGE = (*EACH, "at end", "peak --top 4294967297", "allocations --top 99999999999999999999")


def test_large_numbers_are_the_same(tmp_path: Path) -> None:
    """Addresses, sizes, times, streams and lines on both sides of 2**31, 2**32 and 2**53."""
    cases = [(2**32 - 2048, 2**31 - 512), (2**48, 2**32), (2**62, 2**40 + 1)]
    files = made(tmp_path, [large(*case) for case in cases])
    lines = [line_of(words, file.name) for file in files for words in LARGE]
    check(lines, tmp_path / "files", tmp_path)


def test_hostile_strings_are_the_same(tmp_path: Path) -> None:
    files = made(tmp_path, [hostile_snapshot(PIECES), hostile_snapshot(PIECES[::-1], scale=4096)])
    lines = [line_of(words, file.name) for file in files for words in EACH]
    lines.append(f"memreplay diff {files[0].name} {files[1].name}")
    check(lines, tmp_path / "files", tmp_path)


def made(folder: Path, snapshots: list[Snapshot]) -> list[Path]:
    """Write snapshots to a folder in `folder`."""
    (folder / "files").mkdir()
    files = [folder / "files" / f"{i}.pkl" for i in range(len(snapshots))]
    for file, snapshot in zip(files, snapshots, strict=True):
        file.write_bytes(dump(snapshot))
    return files


def large(address: int, size: int) -> Snapshot:
    """Return three steps that allocate and free at an address."""
    built = SnapshotBuilder(devices=2, start_us=2**53 + 1)
    for device in range(2):
        built.segment_alloc(address, 40 * size, device)
        for step in range(3):
            built.annotation(f"ProfilerStep#{step}", "START")
            for i in range(8):
                frames = [("forward", "/home/user/model.py", 2**31 - 1 + i)]
                where = address + (step * 9 + i) * round_up(size)
                built.alloc(where, size + i, device, stream=2**32 * (i % 2), frames=frames)
                if i % 3:
                    built.free(where, size + i, device, stream=2**32 * (i % 2), frames=frames)
            built.annotation(f"ProfilerStep#{step}", "END")
        built.oom(30 * size, size, device, frames=frames)
    return built.finish_segments().build()


def check(lines: list[str], files: Path, folder: Path) -> None:
    """Run command lines in a new folder and in Pyodide, beside these files; compare."""
    if not (BUILT / "parts").exists() or not shutil.which("node"):
        pytest.skip("the page isn't built: ci/web builds it")
    folder = folder / "native"
    folder.mkdir()
    for one in files.iterdir():
        (folder / one.name).symlink_to(one)
    found = in_node(lines, files)
    for line, ran in zip(lines, found, strict=True):
        done = subprocess.run(
            [sys.executable, "-m", *line.split()],
            capture_output=True,
            check=False,
            cwd=folder,
            env={**os.environ, "COLUMNS": str(COLUMNS)},
        )
        assert ran["said"] == done.stderr.decode(), line
        assert (ran["code"], ran["text"]) == (done.returncode, done.stdout.decode()), line
        written = [one for one in folder.iterdir() if not one.is_symlink()]
        assert sorted(ran["written"]) == sorted(one.name for one in written), line
        for one in written:
            assert b64decode(ran["written"][one.name]) == one.read_bytes(), line
            one.unlink()


def in_node(lines: list[str], files: Path) -> list[dict[str, Any]]:
    """Run command lines in Pyodide, beside these files."""
    done = subprocess.run(
        ["node", "run.mjs", str(files), *lines],
        capture_output=True,
        check=False,
        cwd=ROOT / "web",
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(one) for one in done.stdout.splitlines()]
