"""What a worker does, wherever it is: judges one snapshot, or tells two apart."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.comparing.budgets import Budget
from memreplay.commands.gate.bases import Bases
from memreplay.commands.shared.errors import untold
from memreplay.commands.shared.progress import reading_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.gating.find import Terms, gate_file, told_apart
from memreplay.gating.result import Cause, Finding, GatedFile

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memreplay.commands.shared.progress import Showing, Update


class Judging(Struct, frozen=True):
    """How every file of a run is judged.

    `run` is another word for each run: a worker of a cluster outlives it, and the base of the next
    one may be another file of the same name. `shows` says whether each file has a bar.
    """

    run: str
    budgets: tuple[Budget, ...]
    base: str | None
    reading: Reading
    terms: Terms
    shows: bool = True

    @property
    def showing(self) -> Showing:
        """The bar of each file; none where one over all files is shown."""
        return reading_progress if self.shows else _quiet


class JudgeTask(Struct, frozen=True):
    """One snapshot to judge: its rank and dump, as far as these are known; `alone` if there is no
    other."""

    file: str
    judging: Judging
    rank: int | None = None
    dump: str = ""
    alone: bool = False


class Member(Struct, frozen=True):
    """A device of a file."""

    file: str
    device: int


class ApartTask(Struct, frozen=True):
    """A snapshot that is above another one, by the finding that says so."""

    typical: Member
    high: Member
    finding: Finding
    judging: Judging


class Judged(Struct, frozen=True):
    """What became of a snapshot; where it cannot be judged, which file is to blame for what."""

    file: GatedFile
    blamed: str = ""
    words: str = ""


def judge(task: JudgeTask) -> Judged:
    """Holds one snapshot against the budgets, or says why that cannot be."""
    file, judging = task.file, task.judging
    base = None
    if judging.base is not None:
        bases = bases_of(judging)
        name, exit_code, words = untold(
            partial(bases.name_for, judging.base, file, task.rank, task.dump, alone=task.alone)
        )
        if name is None:
            return _unjudged(file, exit_code, words)
        base, exit_code, words = bases.of(name)
        if base is None:
            said = f"base {name}: {words}"
            found = GatedFile(file=file, base_file=name, error=said, exit_code=exit_code)
            return Judged(found, name, words)

    def work() -> GatedFile:
        with opened(file, judging.reading, judging.showing) as snapshot:
            return gate_file(snapshot, judging.budgets, base, judging.terms)

    made, exit_code, words = untold(work)
    return Judged(made) if made is not None else _unjudged(file, exit_code, words)


def tell_apart(task: ApartTask) -> tuple[Cause, ...]:
    """The code by which a snapshot is above another; none where one cannot be read any more."""
    judging = task.judging

    def work() -> tuple[Cause, ...]:
        with ExitStack() as until:
            old, new = (
                until.enter_context(
                    opened(one.file, replace(judging.reading, device=one.device), judging.showing)
                )
                for one in (task.typical, task.high)
            )
            return told_apart(old, new, task.finding, judging.terms)

    return untold(work)[0] or ()


_kept: dict[str, Bases] = {}  # of the run that this process is at: one at a time


def bases_of(judging: Judging) -> Bases:
    """Those of a run; what an earlier one left open is closed."""
    if judging.run not in _kept:
        let_go()
        _kept[judging.run] = Bases(judging.reading, judging.terms, judging.showing)
    return _kept[judging.run]


def let_go() -> None:
    """Close what this process keeps open for the next file."""
    for one in _kept.values():
        one.close()
    _kept.clear()


def _unjudged(file: str, exit_code: int, words: str) -> Judged:
    return Judged(GatedFile(file=file, error=words, exit_code=exit_code), file, words)


def _quiet(_file: str) -> AbstractContextManager[Update | None]:
    return nullcontext(None)
