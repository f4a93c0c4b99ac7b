"""Runs the program of a dry run once, as it is asked, and makes its report."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.selection import TotalMemory
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.commands.dryrun.keeping import keep, names, older
from memreplay.commands.shared.ending import undone_by_signals
from memreplay.commands.shared.names import check_names
from memreplay.commands.shared.output import Force
from memreplay.commands.shared.recording import RecordingOptions
from memreplay.declared import Opt
from memreplay.dryrun.cards import CARDS, find
from memreplay.errors import NothingToTellError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport
    from memreplay.dryrun.launch import Ended, Process, Setup

DEFAULT = "dryrun.pickle"
DOES_NOT_FIT = 1
NOT_WRITTEN = 2
PROGRAM_FAILED = 6
MOST_CARDS = 64
MOST_SECONDS = 10**9
_STDERR = 2
# Which processes a launcher is told to start, one a card.
_PER_NODE = ("--nproc-per-node", "--nproc_per_node", "--num_processes", "--num-processes")


def _parse_seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= MOST_SECONDS:
        raise UsageError(f"{text!r} is not a number of seconds")
    return found


class DryrunOptions(RecordingOptions, frozen=True):
    """The machine to pretend, what to record, where to write."""

    program: tuple[str, ...] = ()
    as_json: bool = False
    gpu: Annotated[
        str,
        Opt(
            "The card to pretend: T4, L4, A100-40, H100 … (memreplay help dryrun lists them).",
            "NAME",
            among=lambda: tuple(card.key for card in CARDS),
            brief="The card to pretend: T4, L4, A100-40, H100 …",
        ),
    ] = "A100-80"
    total_memory: TotalMemory = None
    gpus: Annotated[
        int | None,
        Opt(
            "Pretend N cards (default: as many as the command starts processes, else 1).",
            "N",
            least=1,
            most=MOST_CARDS,
            brief="Pretend N cards.",
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "Allocator settings, as in PYTORCH_ALLOC_CONF (expandable_segments:True); by default"
            " what the environment says.",
            "KEY:VALUE,...",
            flag="--set",
            brief="Allocator settings, as in PYTORCH_ALLOC_CONF.",
        ),
    ] = ()
    compare: Annotated[
        str | None,
        Opt(
            "Run once for each of these cards or settings (join settings by +), and end with a"
            " table.",
            "A,B",
            brief="Run once for each of these cards or settings.",
        ),
    ] = None
    max_peak: Annotated[
        int | None,
        Opt(
            "Fail if the peak of held memory is above this (38GiB).",
            "SIZE",
            parse=parse_size,
            brief="Fail if the peak is above this (38GiB).",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Fail if the peak of reserved memory is above this.",
            "SIZE",
            parse=parse_size,
            brief="Fail if more was reserved at the peak.",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        Opt(
            "Stop the program after so long, and tell of what it did until then.",
            "SECONDS",
            parse=_parse_seconds,
            brief="Stop the program after so long.",
        ),
    ] = None
    output: Annotated[
        str | None,
        Opt(
            "Write the snapshot to this file; with .rankN before the ending for several processes."
            " The default file of an earlier run is replaced.",
            "OUT",
            short="-o",
            path="file",
            shown=DEFAULT,
            brief="Write the snapshot to this file.",
        ),
    ] = None
    force: Force = False

    @property
    def replaces(self) -> bool:
        """Whether a file that exists is replaced."""
        return self.force or self.output is None


def setup_of(asked: DryrunOptions) -> Setup:
    """The machine that is asked for. Raises UsageError for a card that there is not."""
    from memreplay.dryrun.launch import Setup

    card = find(asked.gpu)
    if asked.total_memory is not None and asked.total_memory <= card.context_bytes:
        from memreplay.render.units import size

        raise UsageError(
            f"--total-memory {size(asked.total_memory)}: CUDA alone takes"
            f" {size(card.context_bytes)} of {card.key}"
        )
    return Setup(
        card=card,
        total_bytes=card.bytes if asked.total_memory is None else asked.total_memory,
        cards=asked.gpus or _started(asked.program),
        settings=",".join(asked.settings) or None,
        stacks=asked.stacks,
        max_entries=asked.max_entries,
        source=asked.source,
        timeout=asked.timeout,
        # What the program prints is no part of what a program reads of us.
        stdout=_STDERR if asked.as_json else None,
    )


def _started(program: tuple[str, ...]) -> int:
    """How many processes a launcher is told to start; 1 where it does not say a number."""
    for i, word in enumerate(program):
        name, equals, value = word.partition("=")
        if name in _PER_NODE:
            value = value if equals else "".join(program[i + 1 : i + 2])
            if value.isdecimal() and 0 < int(value) <= MOST_CARDS:
                return int(value)
    return 1


def ran(asked: DryrunOptions, selection: Selection) -> DryrunReport:
    """Runs the program once, and keeps its snapshots. Raises NothingToTellError where it used no
    GPU, UsageError for what cannot be run."""
    from msgspec.structs import replace

    from memreplay.commands.dryrun.find import dryrun_report
    from memreplay.dryrun.launch import run

    setup = setup_of(asked)
    output = asked.output or DEFAULT
    check_names(output, force=asked.replaces)
    with _folder_beside(output) as folder:
        ended = run(asked.program, setup, folder)
        if not any(one.facts for one in ended.processes):
            _nothing(ended, setup.cards)
        files = names(ended, output)
        report = dryrun_report(
            asked.program,
            setup,
            ended,
            files,
            budget=_budget(asked),
            selection=replace(selection, fold=not asked.as_json),
        )
        replaced = any(map(os.path.exists, files.values()))
        failed = keep(ended, files, force=asked.replaces)
    processes = tuple(
        replace(one, file=None, not_written=failed[one.pid]) if one.pid in failed else one
        for one in report.processes
    )
    return replace(report, processes=processes, replaced=replaced, older=older(output, files))


@contextmanager
def _folder_beside(output: str) -> Iterator[Path]:
    """Where processes write: on the disk that the snapshot is for."""
    parent = os.path.dirname(os.path.realpath(output))
    with (
        tempfile.TemporaryDirectory(prefix=".memreplay-", dir=parent) as folder,
        undone_by_signals(lambda: shutil.rmtree(folder, ignore_errors=True)),
    ):
        yield Path(folder)


def _nothing(ended: Ended, cards: int) -> None:
    """Raises: no process left a snapshot."""
    from memreplay.commands.dryrun.text import signal_name

    if ended.stopped_by:
        raise _StoppedError(ended.stopped_by, ended.processes)
    if not ended.status and ended.processes and not ended.timed_out:
        raise UsageError(
            "the program used the GPU and did not say what it took: an allocator of its own cannot"
            " be recorded, nor what one process did before it became another program (exec)"
        )
    if not ended.status and not ended.timed_out and not ended.interrupted:
        raise NothingToTellError("the program used no GPU")
    if ended.timed_out:
        how = "was stopped by --timeout"
    elif ended.interrupted:
        how = "was stopped by Ctrl-C"
    elif ended.status < 0:
        how = f"was killed by {signal_name(-ended.status)}"
    else:
        how = f"ended with exit code {ended.status}"
    if ended.cards > cards:
        rest = f": it asked for {ended.cards} cards; give --gpus {ended.cards}"
    elif _was_writing(ended.processes):
        rest = f" and left no snapshot: {_WRITING}"
    elif ended.processes:
        last = ended.processes[0].last_call
        rest = f" and left no snapshot; its last call of CUDA was {last}"
    else:
        rest = " before it used a GPU"
    raise _ProgramFailedError(f"the program {how}{rest}")


_WRITING = (
    "the program itself had ended, and its snapshot was still being written; run it again and let"
    " the writing end, or keep fewer events (--max-entries)"
)


def _was_writing(processes: Sequence[Process]) -> bool:
    return any(one.writing for one in processes)


class _StoppedError(UsageError):
    """A signal ended the run, and there is nothing to tell."""

    def __init__(self, number: int, processes: Sequence[Process]) -> None:
        """`processes`: those that had used a GPU."""
        from memreplay.commands.dryrun.text import signal_name

        words = "before the program had used a GPU"
        if _was_writing(processes):
            words = f"and there is no snapshot: {_WRITING}"
        elif processes:
            last_call = processes[0].last_call
            words = f"and the program left no snapshot: its last call of CUDA was {last_call}"
        super().__init__(f"stopped by {signal_name(number)} {words}")
        self.exit_code = 128 + number


class _ProgramFailedError(UsageError):
    """The program failed by itself, and there is nothing else to tell."""

    exit_code = PROGRAM_FAILED


def _budget(asked: DryrunOptions) -> Budget | None:
    if asked.max_peak is None and asked.max_reserved is None:
        return None
    from memreplay.analysis.comparing.budgets import Budget

    return Budget(
        max_peak=asked.max_peak, max_reserved=asked.max_reserved, where="the command line"
    )


def exit_code(report: DryrunReport) -> int:
    """The exit code that says what a report says."""
    if report.stopped_by:
        return 128 + report.stopped_by
    if report.verdict == "fits":
        return NOT_WRITTEN if any(one.not_written for one in report.processes) else 0
    return PROGRAM_FAILED if report.verdict == "not_known" else DOES_NOT_FIT
