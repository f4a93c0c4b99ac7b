"""tasks: what a worker does. Nothing of it fails, whatever the file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet.find import Pair
from memreplay.commands.fleet.tasks import PairTask, RankTask, compare, read_rank
from memreplay.commands.shared.source import Reading
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "fsdp_ranks"


def read(file: Path | str, **reading: object) -> RankTask:
    return RankTask(str(file), Reading(**reading), Selection())  # type: ignore[arg-type]


def test_a_rank_travels_there_and_back() -> None:
    task = pickle.loads(pickle.dumps(read(FOLDER / "rank0.pkl.gz")))
    found = read_rank(task)
    assert (found.status, found.error, found.rank) == ("ok", "", None)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "empty"),
        (b"\x80\x04.", "byte"),
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"hello", "not"),
    ],
)
def test_what_cannot_be_read_is_a_row(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "rank0.pkl"
    file.write_bytes(data)
    found = read_rank(read(file))
    assert (found.status, found.devices, found.file) == ("unreadable", (), str(file))
    assert words in found.error
    assert "\n" not in found.error


def test_what_is_not_there_is_a_row(tmp_path: Path) -> None:
    found = read_rank(read(tmp_path / "rank0.pkl"))
    assert (found.status, found.error != "") == ("unreadable", True)


def test_two_ranks_compared() -> None:
    pair = Pair(str(FOLDER / "rank1.pkl.gz"), 1, str(FOLDER / "rank3.pkl.gz"), 3)
    task = pickle.loads(pickle.dumps(PairTask(pair, Reading(), Selection())))
    found = compare(task)
    assert found.error == ""
    assert sum(abs(row.change_bytes) for row in found.rows) > 0
    gone = compare(PairTask(pair._replace(new="/nowhere.pkl"), Reading(), Selection()))
    assert gone.rows == ()
    assert gone.error
