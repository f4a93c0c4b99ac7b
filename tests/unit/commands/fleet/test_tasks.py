"""tasks: a worker's task, which never raises, whatever the file contains."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.diff import between_ranks
from memreplay.commands.fleet.tasks import PairTask, RankTask, compare, read_rank
from memreplay.commands.shared.source import Reading
from memreplay.fleets import row
from memreplay.fleets.outliers import Pair
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "fsdp_ranks"


def read(file: Path | str, **reading: object) -> RankTask:
    return RankTask(str(file), Reading(**reading), Selection())  # type: ignore[arg-type]


def test_rank_round_trips_through_pickle() -> None:
    task = pickle.loads(pickle.dumps(read(FOLDER / "rank0.pkl.gz")))
    found = read_rank(task)
    assert (found.status, found.error, found.rank) == ("ok", None, None)
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
def test_unreadable_rank_is_a_row(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "rank0.pkl"
    file.write_bytes(data)
    found = read_rank(read(file))
    assert (found.status, found.devices, found.file) == ("unreadable", (), str(file))
    assert found.error is not None
    assert words in found.error
    assert "\n" not in found.error


def test_missing_rank_is_a_row(tmp_path: Path) -> None:
    found = read_rank(read(tmp_path / "rank0.pkl"))
    assert (found.status, found.error is not None) == ("unreadable", True)


def test_file_that_changes_during_the_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the file may have been read before the change. Replacing the file creates a new one,
    so a reader that has the old one open still reads it correctly.
    """
    file, other = tmp_path / "rank0.pkl.gz", tmp_path / "other"
    data = (FOLDER / "rank0.pkl.gz").read_bytes()
    made = row.rank_row

    def meanwhile(*args: Any) -> Any:
        file.write_bytes(data)
        os.utime(file, (1, 1))
        return made(*args)

    def replaced(*args: Any) -> Any:
        other.write_bytes(data)
        other.replace(file)
        return made(*args)

    file.write_bytes(data)
    assert read_rank(read(file)).status == "ok"
    monkeypatch.setattr(row, "rank_row", replaced)
    assert read_rank(read(file)).status == "ok"
    monkeypatch.setattr(row, "rank_row", meanwhile)
    found = read_rank(read(file))
    assert (found.status, found.devices) == ("unreadable", ())
    assert found.error == "the file changed while it was being read; run again"


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_out_of_memory_is_reported_to_the_caller(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller can then retry with more memory."""

    def short(*_: Any) -> None:
        raise error

    file = str(FOLDER / "rank0.pkl.gz")
    monkeypatch.setattr(row, "rank_row", short)
    with pytest.raises(
        MemoryError,
        match="needs more memory than a worker may use; read a part with --from and --to",
    ):
        read_rank(read(file))
    monkeypatch.setattr(between_ranks, "difference_of_files", short)
    with pytest.raises(
        MemoryError,
        match="needs more memory than a worker may use; read a part with --from and --to",
    ):
        compare(PairTask(Pair(file, 0, file, 0), Reading(), Selection()))


def test_two_ranks_are_compared() -> None:
    pair = Pair(str(FOLDER / "rank1.pkl.gz"), 1, str(FOLDER / "rank3.pkl.gz"), 3)
    task = pickle.loads(pickle.dumps(PairTask(pair, Reading(), Selection())))
    found = compare(task)
    assert found.error is None
    assert sum(abs(row.change_bytes) for row in found.rows) > 0
    gone = compare(PairTask(pair._replace(new="/nowhere.pkl"), Reading(), Selection()))
    assert gone.rows == ()
    assert gone.error
