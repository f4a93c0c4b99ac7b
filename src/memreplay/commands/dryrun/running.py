"""Run a program once and build its report."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from memreplay.analysis.selecting.selection import TotalMemory
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.commands.dryrun.keeping import keep, names, older
from memreplay.commands.dryrun.numbers import Range, parse_range
from memreplay.commands.shared.ending import undone_by_signals
from memreplay.commands.shared.names import check_names
from memreplay.commands.shared.output import Force
from memreplay.commands.shared.recording import RecordingOptions
from memreplay.declared import Opt
from memreplay.dryrun.cards import CARDS, find
from memreplay.dryrun.changes import parse_change
from memreplay.dryrun.ranks import MOST_RANKS
from memreplay.errors import NothingToTellError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport
    from memreplay.dryrun.launch import Ended, Process, Setup
    from memreplay.dryrun.ranks import Launched, Ranks

DEFAULT = "dryrun.pickle"
DOES_NOT_FIT = 1
NOT_WRITTEN = 2
PROGRAM_FAILED = 6
MOST_CARDS = 64
MOST_SECONDS = 10**9
_STDERR = 2
# Launchers' options for the number of processes. Each process uses one card.
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
    """Options for the machine to simulate, what to record, and where to write."""

    program: tuple[str, ...] = ()
    as_json: bool = False
    gpu: Annotated[
        str,
        Opt(
            "The GPU to imitate: T4, L4, A100-40, H100 … (memreplay help dryrun lists them).",
            "NAME",
            among=lambda: tuple(card.key for card in CARDS),
            brief="The GPU to imitate: T4, L4, A100-40, H100 …",
        ),
    ] = "A100-80"
    total_memory: TotalMemory = None
    gpus: Annotated[
        int | None,
        Opt(
            "Number of GPUs to imitate (default: one for each process that the command starts).",
            "N",
            least=1,
            most=MOST_CARDS,
            brief="Number of GPUs to imitate.",
        ),
    ] = None
    rank: Annotated[
        str | None,
        Opt(
            "Run only these ranks (0,37 or 0-3) of a distributed program, which are assumed to get"
            " from the others what they send themselves. distinct: those that share a group with"
            " rank 0, such as pipeline stages.",
            "RANKS",
            brief="Run only these ranks of a distributed program.",
        ),
    ] = None
    world_size: Annotated[
        int | None,
        Opt(
            "Number of all ranks, of which only --rank runs (default: 0). torchrun's options say it"
            " otherwise.",
            "N",
            least=1,
            most=MOST_RANKS,
            brief="Number of all ranks, of which only --rank runs.",
            rare=True,
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "Allocator settings, as in PYTORCH_ALLOC_CONF (expandable_segments:True). Default:"
            " from the environment.",
            "KEY:VALUE,...",
            flag="--set",
            brief="Allocator settings, as in PYTORCH_ALLOC_CONF.",
        ),
    ] = ()
    change: Annotated[
        tuple[str, ...],
        Opt(
            "Change the program from outside: checkpoint=PATTERN,... calls modules with these names"
            " or types (model.layers.*, GPT2Block, h.*[::2]) through torch.utils.checkpoint;"
            " foreach=off and fused=on set optimizers; set-to-none frees gradients in zero_grad();"
            " autocast-cache=off. Repeatable.",
            "NAME=VALUE",
            brief="Change the program: checkpoint=model.layers.*, …",
        ),
    ] = ()
    compare: Annotated[
        str | None,
        Opt(
            "Run once for each of these GPUs, settings or changes (join settings or changes with"
            " +; unchanged: neither), then print a table.",
            "A,B",
            brief="Run once for each of these GPUs, settings or changes.",
        ),
    ] = None
    largest: Annotated[
        bool,
        Opt(
            "Find the largest number that fits, by doubling and bisection. COMMAND has {} in its"
            " place: python train.py --batch {}.",
            brief="Find the largest {} in COMMAND that fits.",
        ),
    ] = False
    numbers: Annotated[
        Range | None,
        Opt(
            "Numbers that --largest may try.",
            "LOW:HIGH[:STEP]",
            flag="--range",
            parse=parse_range,
            shown="1:65536",
            needs="largest",
            rare=True,
        ),
    ] = None
    list_gpus: Annotated[
        bool,
        Opt("List the GPUs, and what they have taken outside PyTorch.", brief="List the GPUs."),
    ] = False
    max_peak: Annotated[
        int | None,
        Opt(
            "Fail if peak held memory is above this, such as 38GiB.",
            "SIZE",
            parse=parse_size,
            brief="Fail if the peak is above this, such as 38GiB.",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Fail if peak reserved memory is above this.",
            "SIZE",
            parse=parse_size,
            rare=True,
        ),
    ] = None
    workspaces: Annotated[
        str | None,
        Opt(
            "Take the sizes of cuDNN's workspaces from measurements on a real card (JSON lines)."
            " Others are estimated.",
            "FILE",
            path="file",
            brief="Measured sizes of cuDNN's workspaces (JSON lines).",
            rare=True,
        ),
    ] = None
    routing: Annotated[
        Literal["even", "same"],
        Opt(
            "Which experts a router chooses: even spreads tokens evenly (an estimate), same sends"
            " all of them to the same experts (the worst case if all experts are alike).",
            "HOW",
            brief="Which experts a router chooses: even or same.",
            rare=True,
        ),
    ] = "even"
    timeout: Annotated[
        float | None,
        Opt(
            "Stop the program after this many seconds, and report what it did until then.",
            "SECONDS",
            parse=_parse_seconds,
            brief="Stop the program after this many seconds.",
        ),
    ] = None
    output: Annotated[
        str | None,
        Opt(
            "Write the snapshot to this file; several processes add .rankN before the extension."
            " The default file is overwritten by each run.",
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
        """Whether to replace an existing file."""
        return self.force or self.output is None


def setup_of(asked: DryrunOptions) -> Setup:
    """Return the machine to simulate. Raises UsageError for an unknown card."""
    from memreplay.dryrun.launch import Setup
    from memreplay.dryrun.workspaces import read_measured

    card = find(asked.gpu)
    if asked.total_memory is not None and asked.total_memory <= card.context_bytes:
        from memreplay.render.units import size

        taken = size(card.context_bytes)
        raise UsageError(
            f"--total-memory {size(asked.total_memory)}: CUDA itself takes {taken} on {card.key}"
        )
    ranks = ranks_of_program(asked)
    return Setup(
        card=card,
        total_bytes=card.bytes if asked.total_memory is None else asked.total_memory,
        cards=asked.gpus or (ranks.per_node if ranks is not None else _started(asked.program)),
        ranks=ranks,
        settings=",".join(asked.settings) or None,
        stacks=asked.stacks,
        max_entries=asked.max_entries,
        source=asked.source,
        holders=asked.holders,
        workspaces=None if asked.workspaces is None else read_measured(asked.workspaces),
        routing=asked.routing,
        changes=tuple(map(parse_change, asked.change)),
        timeout=asked.timeout,
        # Keep the program's output out of the JSON.
        stdout=_STDERR if asked.as_json else None,
    )


def _launched(asked: DryrunOptions) -> Launched:
    from memreplay.dryrun.python import interpreter
    from memreplay.dryrun.ranks import launched

    return launched(asked.program, interpreter(asked.program))


def ranks_of_program(asked: DryrunOptions) -> Ranks | None:
    """Return the ranks that run; None if the command is run as it is. Raises UsageError."""
    if asked.rank is None and asked.world_size is None:
        return None
    from memreplay.dryrun.ranks import DISTINCT, parse_ranks, ranks_of

    chosen = parse_ranks(asked.rank) if asked.rank not in (None, DISTINCT) else (0,)
    return ranks_of(_launched(asked), asked.world_size, chosen, asked.gpus)


def _with_distinct(command: Sequence[str], setup: Setup) -> Setup:
    """Run rank 0 to see its groups, and return the setup with the ranks that may differ."""
    from memreplay.dryrun.launch import run
    from memreplay.dryrun.ranks import distinct

    if setup.ranks is None:
        return setup
    sys.stderr.write("memreplay: running rank 0 first, to see its groups\n")
    # If it fails, that's because of ranks that don't run yet, or it fails again.
    with (
        tempfile.TemporaryDirectory(prefix="memreplay-") as folder,
        open(os.devnull, "w") as nowhere,
    ):
        quiet = setup._replace(stdout=nowhere.fileno(), stderr=nowhere.fileno())
        ended = run(command, quiet, Path(folder))
    groups = [group for one in ended.processes for group in one.facts.get("groups", ())]
    chosen = distinct(groups, setup.ranks.size)
    sys.stderr.write(f"memreplay: running ranks {', '.join(map(str, chosen))}\n")
    return setup._replace(ranks=setup.ranks._replace(ranks=chosen))


def _started(program: tuple[str, ...]) -> int:
    """Return the number of processes that a launcher was asked to start; 1 by default."""
    for i, word in enumerate(program):
        name, equals, value = word.partition("=")
        if name in _PER_NODE:
            value = value if equals else "".join(program[i + 1 : i + 2])
            if value.isdecimal() and 0 < int(value) <= MOST_CARDS:
                return int(value)
    return 1


def ran(asked: DryrunOptions, selection: Selection) -> DryrunReport:
    """Run the program once and keep its snapshots.

    Raises NothingToTellError if the program didn't use a GPU, and UsageError if it can't be run.
    """
    from msgspec.structs import replace

    from memreplay.commands.dryrun.changing import check_changes
    from memreplay.commands.dryrun.find import Run, dryrun_report
    from memreplay.dryrun.launch import run
    from memreplay.dryrun.ranks import DISTINCT

    setup = setup_of(asked)
    output = asked.output or DEFAULT
    check_names(output, force=asked.replaces)
    with _folder_beside(output) as folder:
        command = asked.program if setup.ranks is None else _launched(asked).command
        if asked.rank == DISTINCT:
            setup = _with_distinct(command, setup)
        ended = run(command, setup, folder)
        if not any(one.facts for one in ended.processes):
            _nothing(ended, setup.cards)
        if not (ended.status or ended.timed_out or ended.interrupted):
            check_changes(setup.changes, ended.processes)
        files = names(ended, output)
        report = dryrun_report(
            Run(asked.program, setup, ended),
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
    """Create a folder for the processes' files, on the same disk as the output."""
    parent = os.path.dirname(os.path.realpath(output))
    with (
        tempfile.TemporaryDirectory(prefix=".memreplay-", dir=parent) as folder,
        undone_by_signals(lambda: shutil.rmtree(folder, ignore_errors=True)),
    ):
        yield Path(folder)


def _nothing(ended: Ended, cards: int) -> None:
    """Raise an error because no process left a snapshot."""
    from memreplay.commands.dryrun.hints import hint_of
    from memreplay.commands.dryrun.text import signal_name

    if ended.stopped_by:
        raise _StoppedError(ended.stopped_by, ended.processes)
    if not ended.status and ended.processes and not ended.timed_out:
        raise UsageError(
            "the program used the GPU, but its memory wasn't recorded: custom allocators"
            " can't be recorded, and neither can a process before exec"
        )
    if not ended.status and not ended.timed_out and not ended.interrupted:
        raise NothingToTellError("the program used no GPU; its tensors must be on the device cuda")
    if ended.timed_out:
        how = "was stopped by --timeout"
    elif ended.interrupted:
        how = "was stopped by Ctrl-C"
    elif ended.status < 0:
        how = f"was killed by {signal_name(-ended.status)}"
    else:
        how = f"ended with exit code {ended.status}"
    if ended.cards > cards:
        rest = f": it needs {ended.cards} cards; give --gpus {ended.cards}"
    elif _was_writing(ended.processes):
        rest = f" and left no snapshot: {_WRITING}"
    elif ended.processes:
        last = ended.processes[0].last_call
        rest = f" and left no snapshot; its last CUDA call was {last}"
    else:
        hint = hint_of(ended)
        rest = " before it used a GPU" + (f": {hint}" if hint else "")
    raise _ProgramFailedError(f"the program {how}{rest}")


_WRITING = (
    "the program had ended, but its snapshot was still being written; run it"
    " again and wait, or keep fewer events (--max-entries)"
)


def _was_writing(processes: Sequence[Process]) -> bool:
    return any(one.writing for one in processes)


class _StoppedError(UsageError):
    """A signal ended the run before a report could be written."""

    def __init__(self, number: int, processes: Sequence[Process]) -> None:
        """`processes`: the processes that had used a GPU."""
        from memreplay.commands.dryrun.text import signal_name

        words = "before the program used a GPU"
        if _was_writing(processes):
            words = f"and left no snapshot: {_WRITING}"
        elif processes:
            last_call = processes[0].last_call
            words = f"and the program left no snapshot: its last CUDA call was {last_call}"
        super().__init__(f"stopped by {signal_name(number)} {words}")
        self.exit_code = 128 + number


class _ProgramFailedError(UsageError):
    """The program itself failed, so there is nothing to report."""

    exit_code = PROGRAM_FAILED


def _budget(asked: DryrunOptions) -> Budget | None:
    if asked.max_peak is None and asked.max_reserved is None:
        return None
    from memreplay.analysis.comparing.budgets import Budget

    return Budget(
        max_peak=asked.max_peak, max_reserved=asked.max_reserved, where="the command line"
    )


def exit_code(report: DryrunReport) -> int:
    """Return a report's exit code."""
    if report.stopped_by:
        return 128 + report.stopped_by
    if report.verdict == "fits":
        return NOT_WRITTEN if any(one.not_written for one in report.processes) else 0
    return PROGRAM_FAILED if report.verdict == "not_known" else DOES_NOT_FIT
