"""The result of `memreplay dryrun`: whether a program fits, how high its peak is, and what is
unknown.
"""

from __future__ import annotations

from typing import Literal

from memreplay.commands.oom.result import DeviceOoms
from memreplay.commands.peak.result import DevicePeak
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_holders import RecordedHolders

Outcome = Literal["ended", "out_of_memory", "failed", "killed", "timed_out", "interrupted"]
EstimateName = Literal[
    "convolutions", "convolutions, channels last", "recurrent networks", "measured"
]
Verdict = Literal["fits", "does_not_fit", "over_budget", "not_known"]


Routing = Literal["even", "same"]


class DryCard(Record, frozen=True):
    """A fake card."""

    key: str
    """Name for `--gpu`."""
    name: str
    """Name that PyTorch reports."""
    total_memory_bytes: int
    """Total memory that PyTorch reports."""
    context_bytes: int
    """Memory that CUDA itself takes at the start."""
    outside_measured: bool
    """Whether the memory that libraries take later was measured on this card, rather than
    [estimated](dryrun.md#memory-outside-pytorch) from another.
    """
    count: int
    """Number of cards."""


class DryOutside(Record, frozen=True):
    """[Memory outside PyTorch's allocator](dryrun.md#memory-outside-pytorch): an estimate."""

    cuda_bytes: int
    """CUDA itself, with the code of the program's kernels."""
    cublas_bytes: int
    """cuBLAS: handles and kernels."""
    cudnn_bytes: int
    """cuDNN: handles."""
    cusolver_bytes: int
    """cuSOLVER."""
    cufft_bytes: int
    """cuFFT."""
    nccl_bytes: int
    """NCCL: the buffers of communicators."""


class DryDevice(Record, frozen=True):
    """One process's use of one card."""

    device: int
    outside: DryOutside
    """Memory that the process takes outside PyTorch's allocator."""
    reserved_peak_bytes: int
    """Peak of reserved memory."""
    allocated_peak_bytes: int
    """Peak of allocated memory."""
    requested_peak_bytes: int
    """Peak of requested memory."""
    recorded_peak_bytes: int
    """Peak of requested memory in the recording, which is lower if the recording is incomplete."""
    oom_count: int
    """Number of failed requests."""
    retries: int
    """Number of times that the allocator released its cache to serve a request."""


class DryProcess(Record, frozen=True):
    """A process that used a card."""

    pid: int
    """Process id."""
    rank: int | None
    """Rank in a distributed run."""
    file: str | None
    """The process's snapshot; null if it ended without writing one."""
    last_call: str | None
    """The last CUDA function called by a process that ended silently."""
    not_written: str | None
    """Why the snapshot couldn't be written; null if it was written."""
    replaced: bool
    """Whether the process used cards before calling exec, so that its memory until then is unknown.
    """
    recorded_by_itself: bool
    """Whether the program made its own recording. If so, the snapshot contains that recording."""
    dumped: tuple[str, ...]
    """Snapshots that the program wrote itself."""
    devices: tuple[DryDevice, ...]
    """The cards that the process used."""
    sizes_digest: str | None = None
    """A digest of all recorded allocations' sizes in order, equal for processes that allocated the
    same; null without a recording."""

    @property
    def lost(self) -> bool:
        """Whether the process ended or called exec without reporting its memory."""
        return self.replaced or self.last_call is not None


class ValueRead(Record, frozen=True):
    """Values that the program read from the card and that a dry run doesn't know."""

    operator: str
    """The operator that read the values: `item`, `nonzero`, `copy` …"""
    file: str
    """The program's source file; "" without a Python caller."""
    line: int
    """Line number."""
    function: str
    """Function."""
    through: str
    """The line of library code that the program's line called, as `file:line`, or ""."""
    count: int
    """Number of reads."""
    makes_sizes: bool
    """Whether the operator uses the values as sizes."""
    random: bool
    """Whether the values come from random numbers, so that they differ in each run."""
    assumed: bool = False
    """Whether the values come from a rank that didn't run, and were assumed to be the same as the
    reading rank's."""
    chosen: bool = False
    """Whether the values depend on choices, such as a router's experts, that a dry run assumed: see
    `routing`. If they are neither `random`, `assumed` nor chosen, they were zero, or computed from
    zeros."""

    @property
    def source(self) -> Literal["unknown", "random", "assumed", "chosen"]:
        """Where the values come from; of several sources, the least certain."""
        if self.chosen:
            return "chosen"
        return "assumed" if self.assumed else "random" if self.random else "unknown"


class Unknown(Record, frozen=True):
    """An NVIDIA library or an unimplemented function that the program's memory may depend on."""

    name: str
    """The library or function."""
    count: int
    """Number of calls."""


class Estimate(Record, frozen=True):
    """Workspaces of cuDNN whose sizes were estimated, or measured on a real card."""

    name: EstimateName
    """The operators that they're for; `measured` if `--workspaces` has their sizes."""
    count: int
    """Number of queries for a size."""
    peak_bytes: int
    """How much of them is part of the peak of requested memory, in the process with most of them.
    """
    error_bytes: int
    """The error of `peak_bytes`, according to [measurements](dryrun.md#workspaces) on an H200."""
    benchmark: bool = False
    """Whether `torch.backends.cudnn.benchmark` was set at the end. cuDNN then takes the largest
    workspace of all kernels that it tries, which isn't known."""


class DryChange(Record, frozen=True):
    """A change that was made to the program from outside."""

    option: str
    """The change, as given to `--change`."""
    names: tuple[str, ...]
    """The modules that were checkpointed, or the optimizers whose settings were changed."""
    count: int
    """How often the change was applied, in all processes: calls of modules, of `zero_grad()` or of
    autocast; for optimizers, their number.
    """
    unused_names: tuple[str, ...] = ()
    """Modules that match but weren't checkpointed, because they didn't run with gradients enabled,
    are part of a compiled module, or are checkpointed by the program itself."""


class DryrunReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun/1"):
    """The result of `memreplay dryrun`."""

    text_only = ("replaced", "stopped_by", "older")

    command: tuple[str, ...]
    """The command that was run."""
    card: DryCard
    """The simulated card."""
    world_size: int | None = None
    """Number of the program's ranks, of which only `ranks_ran` ran; null if the command was run
    unchanged.
    """
    ranks_ran: tuple[int, ...] = ()
    """The ranks that ran, if `world_size` is given. The others are assumed to send them what they
    send."""
    settings: str | None
    """Allocator settings from `--set`; null if they come from the environment."""
    program_changes: tuple[DryChange, ...] = ()
    """The effect of each `--change`."""
    torch: str
    """Version of torch."""
    outcome: Outcome
    """How the command ended: normally with all requests served (`ended`), out of memory, by its own
    error, by a signal, by `--timeout`, or by Ctrl-C.
    """
    exit_code: int
    """The command's exit code, or the negative signal number."""
    seconds: float
    """How long the command ran."""
    error: str | None
    """The exception that ended the command, if known."""
    hint: str | None
    """Advice if the program failed because a file or something from the network is missing."""
    cards_asked: int
    """Number of cards needed, given the device numbers that the program used."""
    verdict: Verdict
    """Whether the program fits. Unknown if it didn't finish, or if a process that used a card ended
    without reporting its memory.
    """
    peak_bytes: int
    """Most memory reserved on one card at a time, by all processes that use it."""
    outside_bytes: int
    """Memory that these processes take outside PyTorch's allocator:
    [an estimate](dryrun.md#memory-outside-pytorch).
    """
    spare_bytes: int
    """Memory left on that card: its total, minus `peak_bytes` and `outside_bytes`. Negative if that
    is more than the card has.
    """
    shared: bool
    """Whether processes shared a card. If they did, their memory is added up."""
    budget: str | None
    """The line that says whether limits were met. Only with `--max-peak` or `--max-reserved`."""
    exact: bool
    """Whether the numbers are independent of everything that a dry run doesn't know. If true, the
    next four fields are empty, and each process reported its memory. If the program didn't finish,
    this only covers the part that ran.
    """
    reads: tuple[ValueRead, ...]
    """Values that the program read and that a dry run doesn't know. Values used as sizes come
    first.
    """
    workspaces: tuple[Unknown, ...]
    """Libraries that were asked for a workspace size, which only the real libraries know."""
    estimates: tuple[Estimate, ...]
    """Workspaces with estimated or measured sizes."""
    workspaces_source: str | None
    """The card and the versions that `--workspaces` was measured with; null without it."""
    unanswered: tuple[Unknown, ...]
    """Functions that may return a size but that a dry run doesn't implement."""
    routing: Routing = "even"
    """How choices were assumed: spread evenly, or all the same."""
    no_values: str
    """Why integers, booleans and small floats weren't computed, so that they all read as zeros; ""
    if they were.
    """
    processes: tuple[DryProcess, ...]
    """Processes that used a card, by rank."""
    shown: str | None
    """The snapshot that `peaks` and `ooms` are about: the one with the highest peak, or the first
    that ran out of memory.
    """
    peaks: tuple[DevicePeak, ...]
    """The result of [memreplay peak](peak.md) for the snapshot `shown`."""
    ooms: tuple[DeviceOoms, ...]
    """The result of [memreplay oom](oom.md) for the snapshot `shown`, if the program ran out of
    memory.
    """
    held_by: RecordedHolders | None = None
    """The holders of the memory in the snapshot `shown`; null without `--holders`."""
    replaced: bool = False
    """Whether an earlier snapshot was replaced."""
    stopped_by: int = 0
    """The signal that ended the run, other than Ctrl-C; 0 if none did."""
    older: tuple[str, ...] = ()
    """Snapshots of earlier runs in the same folder."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.text import dryrun_document

        return dryrun_document(self)
