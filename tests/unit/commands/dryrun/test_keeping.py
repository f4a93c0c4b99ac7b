"""Tests of commands/dryrun/keeping.py."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from memreplay.commands.dryrun.keeping import keep, names
from memreplay.commands.shared.names import check_names, split
from memreplay.dryrun.installing import Installer
from memreplay.dryrun.launch import Ended, Process
from memreplay.dryrun.python import Torch
from memreplay.errors import UsageError


def ended(*processes: Process) -> Ended:
    return Ended(
        0,
        False,
        False,
        1.0,
        Torch("python", Path("torch"), "9.9", None, Installer("python")),
        13,
        (),
        processes,
    )


def process(pid: int, rank: int | None = None, pickle: Path | None = Path("p")) -> Process:
    return Process(pid, pickle, {"rank": rank}, "cudaMalloc")


@pytest.mark.parametrize(
    "path, stem, ending",
    [
        ("dryrun.pickle", "dryrun", ".pickle"),
        ("a.b/run.pickle.gz", "a.b/run", ".pickle.gz"),
        ("run.pkl.zst", "run", ".pkl.zst"),
        ("run.PKL.GZ", "run", ".PKL.GZ"),
        ("run.gz", "run", ".gz"),
        ("run.v2", "run", ".v2"),
        ("a.b/run", "a.b/run", ""),
        (".pickle", "", ".pickle"),
    ],
)
def test_suffix_is_split_from_the_name(path: str, stem: str, ending: str) -> None:
    assert split(path) == (stem, ending)


def test_names_of_kept_files_are_unique() -> None:
    none = process(4, 3, pickle=None)
    assert names(ended(process(1, 0), none), "x.pickle") == {1: "x.pickle"}
    assert names(ended(process(1, 0), process(2, 1), none), "d/x.pkl.gz") == {
        1: "d/x.rank0.pkl.gz",
        2: "d/x.rank1.pkl.gz",
    }
    # The same ranks in two runs of one command, and processes without ranks.
    assert names(ended(process(1, 0), process(2, 0), process(3)), "x") == {
        1: "x.pid1",
        2: "x.pid2",
        3: "x.pid3",
    }
    assert names(ended(none), "x.pickle") == {}


def test_existing_files_need_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_names("x[1].pickle", force=False)
    Path("x[1].rank0.pickle").touch()
    with pytest.raises(UsageError, match=r"^x\[1\]\.rank0\.pickle already exists; give --force"):
        check_names("x[1].pickle", force=False)
    check_names("x[1].pickle", force=True)
    check_names("x1.pickle", force=False)
    os.mkfifo("pipe.pickle")
    with pytest.raises(UsageError, match=r"cannot write pipe\.pickle: it isn't a file"):
        check_names("pipe.pickle", force=True)
    Path("folder").mkdir()
    with pytest.raises(UsageError, match="cannot write folder: it isn't a file"):
        check_names("folder", force=True)


def test_snapshots_are_moved_or_compressed(tmp_path: Path) -> None:
    raw = [tmp_path / f"{i}.pickle" for i in range(3)]
    for i, path in enumerate(raw):
        path.write_bytes(b"snapshot %d" % i)
    moved, small = tmp_path / "moved.pickle", tmp_path / "small.pickle.gz"
    moved.write_text("before")
    run = ended(process(0, pickle=raw[0]), process(1, pickle=raw[1]), process(2, pickle=None))
    names = {0: str(moved), 1: str(small)}
    assert keep(run, names, force=False) == {
        0: f"the program wrote {moved} itself; choose another --output"
    }
    assert (moved.read_text(), raw[0].exists()) == ("before", True)
    raw[1].write_bytes(b"snapshot 1")
    assert keep(run, names, force=True) == {}
    assert moved.read_bytes() == b"snapshot 0"
    assert gzip.decompress(small.read_bytes()) == b"snapshot 1"
    assert not raw[0].exists()
