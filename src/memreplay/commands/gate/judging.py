"""A worker's tasks: judge a snapshot, or explain a difference between two."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.comparing.budgets import Budget
from memreplay.commands.gate.bases import Bases
from memreplay.commands.shared.errors import attempt_unreported
from memreplay.commands.shared.progress import reading_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.gating.find import Terms, explain_excess, gate_file
from memreplay.gating.result import Cause, Finding, GatedFile

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memreplay.commands.shared.progress import Showing, Update


class Judging(Struct, frozen=True):
    """How to judge every file of a run.

    `run` identifies the run, because a cluster's worker can outlive the run, and the next run's
    base can be another file with the same name. `shows`: whether each file has a progress bar.
    """

    run: str
    budgets: tuple[Budget, ...]
    base: str | None
    reading: Reading
    terms: Terms
    shows: bool = True

    @property
    def showing(self) -> Showing:
        """A context that hides each file's progress bar if there is one for all files."""
        return reading_progress if self.shows else _quiet


class JudgeTask(Struct, frozen=True):
    """A snapshot to judge, with its rank and dump if known. `alone`: whether it's the only one."""

    file: str
    judging: Judging
    rank: int | None = None
    dump: str = ""
    alone: bool = False


class Member(Struct, frozen=True):
    """A device and its file."""

    file: str
    device: int


class ApartTask(Struct, frozen=True):
    """A snapshot that exceeds another, and the finding about the excess."""

    typical: Member
    high: Member
    finding: Finding
    judging: Judging


class Judged(Struct, frozen=True):
    """A snapshot's result, or if it can't be judged, the file at fault and the error."""

    file: GatedFile
    blamed: str = ""
    words: str = ""


def judge(task: JudgeTask) -> Judged:
    """Check one snapshot against the budgets, or say why it can't be judged."""
    file, judging = task.file, task.judging
    base = None
    if judging.base is not None:
        bases = bases_of(judging)
        name, exit_code, words = attempt_unreported(
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

    made, exit_code, words = attempt_unreported(work)
    return Judged(made) if made is not None else _unjudged(file, exit_code, words)


def tell_apart(task: ApartTask) -> tuple[Cause, ...]:
    """Return the call sites that make a snapshot exceed another; empty if one of them became
    unreadable.
    """
    judging = task.judging

    def work() -> tuple[Cause, ...]:
        with ExitStack() as until:
            old, new = (
                until.enter_context(
                    opened(one.file, replace(judging.reading, device=one.device), judging.showing)
                )
                for one in (task.typical, task.high)
            )
            return explain_excess(old, new, task.finding, judging.terms)

    return attempt_unreported(work)[0] or ()


_kept: dict[str, Bases] = {}  # the bases of the run that this process works for


def bases_of(judging: Judging) -> Bases:
    """Return a run's bases, and close those of an earlier run."""
    if judging.run not in _kept:
        close_bases()
        _kept[judging.run] = Bases(judging.reading, judging.terms, judging.showing)
    return _kept[judging.run]


def close_bases() -> None:
    """Close the bases that this process keeps open."""
    for one in _kept.values():
        one.close()
    _kept.clear()


def _unjudged(file: str, exit_code: int, words: str) -> Judged:
    return Judged(GatedFile(file=file, error=words, exit_code=exit_code), file, words)


def _quiet(_file: str) -> AbstractContextManager[Update | None]:
    return nullcontext(None)
