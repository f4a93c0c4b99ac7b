"""Format a dry run as text. The verdict is a separate line."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence

from memreplay.commands.dryrun.changing import change_line
from memreplay.commands.dryrun.processes import total
from memreplay.commands.dryrun.result import DryProcess, DryrunReport, Estimate, ValueRead
from memreplay.commands.oom.result import OomReport
from memreplay.commands.peak.result import PeakReport
from memreplay.render.document import Block, Document, Note, Pairs, Row, Table
from memreplay.render.units import count, counted, size
from memreplay.snapshot.cards import OUTSIDE_ERROR
from memreplay.texts import clean

_MOST_PLACES = 5
_MOST_RANKS = 16
_MOST_FILES = 3
# Whether values were used as sizes, where they came from, and what to say about it.
_READS = (
    (
        True,
        "unknown",
        "not exact: sizes depend on GPU values that a dry run doesn't compute (zeros)",
    ),
    (True, "chosen", "not exact: sizes depend on choices by activations, {routing}"),
    (True, "assumed", "not exact: sizes depend on values of ranks that didn't run"),
    (True, "random", "not exact: sizes depend on random numbers, which differ in each run"),
    (
        False,
        "unknown",
        "GPU values were read that a dry run doesn't know: exact unless sizes use them",
    ),
    (False, "chosen", "choices by activations were read, {routing}: exact unless sizes use them"),
    (
        False,
        "assumed",
        "values of ranks that didn't run were read, assumed to be like these: exact if they are",
    ),
    (False, "random", "random numbers were read: exact unless sizes use them"),
)
_ROUTING = {
    "even": "spread evenly here (see --routing)",
    "same": "all the same here (see --routing)",
}


def verdict_line(report: DryrunReport) -> str:
    """Return the line that says whether the program fits, and the margin."""
    if report.outcome == "out_of_memory":
        card = f"{size(report.card.total_memory_bytes)} ({report.card.key})"
        return f"does not fit: out of memory on {card}{_asked(report)}"
    peak = f"{size(report.peak_bytes)} reserved at most"
    if report.outcome == "timed_out":
        return f"stopped after {report.seconds:.0f} s (--timeout): {peak} until then"
    if report.outcome == "interrupted":
        how = signal_name(report.stopped_by) if report.stopped_by else "Ctrl-C"
        return f"stopped by {how}: {peak} until then"
    if report.outcome == "killed":
        return f"the program was killed by {signal_name(-report.exit_code)}{_last_call(report)}"
    if report.outcome == "failed":
        return (
            f"the program failed with exit code {report.exit_code}, not for lack of memory: {peak}"
            " until then"
        )
    outside = f"(estimate: {size(report.outside_bytes)} outside PyTorch)"
    if report.verdict == "does_not_fit":
        return f"does not fit {report.card.key}: {size(-report.spare_bytes)} too much {outside}"
    if report.verdict == "over_budget":
        return f"over its budget: {clean(report.budget or '')}"
    if report.verdict == "not_known":
        return f"not known: a process ended without reporting its memory; known so far: {peak}"
    known = "" if _all_known(report) else ", as far as is known"
    spare = f"{size(report.spare_bytes)} to spare{_which_ranks(report)}"
    return f"fits {report.card.key}{known}, {spare} {outside}"


def _which_ranks(report: DryrunReport) -> str:
    if report.world_size is None or len(report.ranks_ran) == report.world_size:
        return ""
    return f" on {len(report.ranks_ran)} of {count(report.world_size)} ranks"


def verdict_text(report: DryrunReport) -> str:
    """Return a short verdict for a table of runs."""
    if report.outcome != "ended":
        outcomes = {"out_of_memory": "out of memory", "timed_out": "stopped"}
        return outcomes.get(report.outcome, report.outcome)
    if report.verdict == "fits":
        known = "" if _all_known(report) else ", as far as is known"
        return f"fits{known}{_which_ranks(report)}"
    return report.verdict.replace("_", " ")


def _all_known(report: DryrunReport) -> bool:
    """Return whether every size is known. Values that the program read from the GPU only matter if
    they're used as sizes, and estimates only if their error may be more than what's left.
    """
    sizes = any(one.makes_sizes for one in report.reads)
    error = sum(one.error_bytes for one in report.estimates)
    estimates = error > report.spare_bytes or any(one.benchmark for one in report.estimates)
    return not (sizes or report.workspaces or report.unanswered or estimates)


def dryrun_document(report: DryrunReport) -> Document:
    """Build the command, the result and the unknowns, followed by the report of `oom` or `peak`."""
    blocks: list[Block] = [Pairs(tuple(_pairs(report)))]
    if len(report.processes) > 1:
        blocks.append(_ranks(report))
    blocks += [
        Note(f"{_name(one)} recorded itself, and wrote {_files(one.dumped)}")
        for one in report.processes
        if one.recorded_by_itself and one.dumped
    ]
    blocks += [Note(words, "warning") for words in warnings_of(report)]
    if report.shown is None:
        return tuple(blocks)
    if report.ooms:
        from memreplay.commands.oom.text import oom_document

        return (*blocks, *oom_document(_as_oom(report, report.shown)))
    from memreplay.commands.peak.text import peak_document
    from memreplay.render.recorded_holders import holder_blocks

    return (
        *blocks,
        *peak_document(_as_peak(report, report.shown)),
        *holder_blocks(report.held_by),
    )


def _as_peak(report: DryrunReport, file: str) -> PeakReport:
    return PeakReport(file=file, measure="requested", by="stack", devices=report.peaks)


def _as_oom(report: DryrunReport, file: str) -> OomReport:
    return OomReport(
        file=file,
        by="stack",
        truncated=False,
        devices=report.ooms,
        held_by=report.held_by,
        chosen=max((one.number for device in report.ooms for one in device.ooms), default=1),
    )


def _asked(report: DryrunReport) -> str:
    for device in report.ooms:
        for one in device.ooms:
            return f": {size(one.request_bytes)} requested, {size(one.device_free_bytes or 0)} free"
    return ""


def signal_name(number: int) -> str:
    """Return a signal's name, such as `SIGSEGV`, with the likely reason if the system sends it."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    if name == "SIGKILL":
        return "SIGKILL (did this machine run out of memory?)"
    return name


def _last_call(report: DryrunReport) -> str:
    calls = [one.last_call for one in report.processes if one.last_call]
    return f"; its last call: {clean(calls[0])}" if calls else ""


def _pairs(report: DryrunReport) -> list[tuple[str, str]]:
    card = report.card
    many = f"{card.count} x " if card.count > 1 else ""
    pairs = [
        ("program", clean(shlex.join(report.command))),
        ("card", f"{many}{card.name}, {size(card.total_memory_bytes)}"),
    ]
    if report.processes:
        pairs.append(("memory", f"{size(report.peak_bytes)} reserved at most"))
        pairs.append(("outside", _outside(report)))
    if report.world_size is not None:
        names = ", ".join(map(str, report.ranks_ran))
        pairs.append(("ranks", f"only {names} of {count(report.world_size)} ran{_alike(report)}"))
    if report.settings is not None:
        pairs.append(("settings", clean(report.settings)))
    for i, one in enumerate(report.program_changes):
        pairs.append(("" if i else "changes", change_line(one)))
    if report.budget is not None and report.verdict != "over_budget":
        pairs.append(("budget", report.budget))
    if report.error is not None and report.outcome != "out_of_memory":
        pairs.append(("ended by", clean(report.error)))
    files = [one.file for one in report.processes if one.file is not None]
    if files:
        more = f" and {count(len(files) - 1)} more" if len(files) > 1 else ""
        replaced = " (replaced)" if report.replaced else ""
        pairs.append(("snapshot", f"{clean(files[0])}{more}{replaced}"))
    if report.processes:
        until = "" if report.outcome in ("ended", "out_of_memory") else " until then"
        whole = f"exact{until}: measured with PyTorch's own allocator"
        lines = _not_known(report) or [whole]
        pairs += [("" if i else "numbers", line) for i, line in enumerate(lines)]
    return pairs


def _outside(report: DryrunReport) -> str:
    """Return the memory outside PyTorch's allocator on the fullest card. If only one process uses
    that card, list what takes it.
    """
    whole = f"{size(report.outside_bytes)} (an estimate)"
    fullest = [
        one.outside
        for process in report.processes
        for one in process.devices
        if one.reserved_peak_bytes == report.peak_bytes
        and total(one.outside) == report.outside_bytes
    ]
    if report.shared or not fullest:
        return whole
    outside = fullest[0]
    parts = (
        ("CUDA", outside.cuda_bytes),
        ("cuBLAS", outside.cublas_bytes),
        ("cuDNN", outside.cudnn_bytes),
        ("cuSOLVER", outside.cusolver_bytes),
        ("cuFFT", outside.cufft_bytes),
        ("NCCL", outside.nccl_bytes),
    )
    return f"{whole}: {', '.join(f'{name} {size(taken)}' for name, taken in parts if taken)}"


def _alike(report: DryrunReport) -> str:
    """Say which of the ranks that ran allocated the same."""
    alike: dict[str, list[str]] = {}
    for one in report.processes:
        if one.sizes_digest is not None and one.rank is not None:
            alike.setdefault(one.sizes_digest, []).append(str(one.rank))
    if len(report.processes) < 2 or not alike:
        return ""
    return f"; same allocations: {'; '.join(map(', '.join, alike.values()))}"


def _not_known(report: DryrunReport) -> list[str]:
    """Return lines on the unknowns that the numbers depend on."""
    lines = []
    for sizes, kind, words in _READS:
        reads = [one for one in report.reads if (one.makes_sizes, one.source) == (sizes, kind)]
        if reads:
            lines.append(words.format(routing=_ROUTING[report.routing]))
            lines += [f"  {_place(one)}" for one in reads[:_MOST_PLACES]]
            if len(reads) > _MOST_PLACES:
                lines.append(f"  and {counted(len(reads) - _MOST_PLACES, 'more place')}")
    if report.reads and report.no_values:
        lines.append(f"all values are zeros: {clean(report.no_values)}")
    if lost := sum(one.lost for one in report.processes):
        who = "a process ended without reporting its memory"
        if lost > 1:
            who = f"{count(lost)} processes ended without reporting their memory"
        lines.append(f"not exact: {who}")
    lines += [_estimate(one, report.workspaces_source) for one in report.estimates]
    for one in report.workspaces:
        lines.append(
            f"not exact: workspaces of {one.name} aren't counted ({counted(one.count, 'call')})"
        )
    if report.unanswered:
        names = ", ".join(f"{one.name} ({count(one.count)})" for one in report.unanswered[:3])
        more = f" and {len(report.unanswered) - 3} more" if len(report.unanswered) > 3 else ""
        lines.append(f"not exact: unsupported functions were called: {names}{more}")
    return lines


def _estimate(one: Estimate, where: str | None) -> str:
    share = "none in the peak"
    if one.name == "measured":
        if one.peak_bytes:
            share = f"{size(one.peak_bytes)} of the peak"
        source = f" ({clean(where)})" if where else ""
        return f"measured: sizes of cuDNN's workspaces, {share}{source}"
    if one.peak_bytes:
        share = f"{size(one.peak_bytes)} of the peak, ±{size(one.error_bytes)} on an H200"
    more = "; cudnn.benchmark is set, which may take more" if one.benchmark else ""
    return f"estimate: cuDNN's workspaces for {one.name}, {share}{more}"


def _place(one: ValueRead) -> str:
    times = f" ({count(one.count)} times)" if one.count > 1 else ""
    if not one.file:
        return f"{one.operator}, in a C++ thread (a backward pass){times}"
    library = f", by {short_path(one.through)}" if one.through else ""
    line = f":{one.line}" if one.line else ""
    return clean(f"{one.operator} in {one.function} {short_path(one.file)}{line}{library}{times}")


def short_path(file: str) -> str:
    """Shorten a path: relative to the working directory if it's below it, otherwise its last three
    parts.
    """
    if file.startswith(os.getcwd() + os.sep):
        return os.path.relpath(file)
    parts = file.split("/")
    return file if len(parts) <= 4 else "/".join(["…", *parts[-3:]])


def _ranks(report: DryrunReport) -> Table:
    rows = []
    for one in report.processes[:_MOST_RANKS]:
        name = f"rank {one.rank}" if one.rank is not None else f"process {one.pid}"
        if one.last_call is not None:
            rows.append(Row((name, "-", "-", "-", f"no snapshot; last call: {one.last_call}")))
            continue
        for device in one.devices:
            reserved = device.reserved_peak_bytes
            spare = report.card.total_memory_bytes - reserved - total(device.outside)
            file = clean(one.file) if one.file is not None else "not written"
            cells = (str(device.device), size(reserved), size(spare), file)
            rows.append(Row((name, *cells)))
    more = len(report.processes) - _MOST_RANKS
    if more > 0:
        rows.append(Row(("", "", "", "", f"{count(more)} more (--format json has all)")))
    titles = ("process", "device", "reserved", "to spare", "snapshot")
    return Table(titles, ("left", "right", "right", "right", "left"), tuple(rows))


def warnings_of(report: DryrunReport) -> list[str]:
    """Return further warnings, one line each."""
    found = []
    if report.verdict == "fits" and report.spare_bytes < OUTSIDE_ERROR:
        found.append(
            f"less than {size(OUTSIDE_ERROR)} to spare: it may not fit, because memory outside"
            " PyTorch is an estimate"
        )
    if report.verdict == "does_not_fit" and _missing_bytes(report) < OUTSIDE_ERROR:
        found.append(
            f"less than {size(OUTSIDE_ERROR)} missing: it may fit, because memory outside PyTorch"
            " is an estimate"
        )
    if report.shared:
        found.append(
            "several processes used one card: their peaks are added up, as if simultaneous"
        )
    found += [
        f"{_name(one)} ended without a snapshot; its last CUDA call: {one.last_call}"
        for one in report.processes
        if one.last_call is not None
    ]
    found += [
        f"{_name(one)} used the GPU before exec; its memory until then isn't known"
        for one in report.processes
        if one.replaced
    ]
    found += [
        f"the snapshot of {_name(one)} couldn't be written: {clean(one.not_written)}"
        for one in report.processes
        if one.not_written
    ]
    found += [
        f"{_name(one)} started its own recording, which is what the snapshot contains"
        for one in report.processes
        if one.recorded_by_itself and not one.dumped
    ]
    found += [
        f"{_name(one)}: the recording shows {size(device.recorded_peak_bytes)} of the"
        f" {size(device.requested_peak_bytes)} requested at the peak"
        for one in report.processes
        for device in one.devices
        if one.file is not None
        and device.recorded_peak_bytes < device.requested_peak_bytes
        and not (one.recorded_by_itself and one.dumped)  # its own files show more
    ]
    if report.hint:
        found.append(clean(report.hint))
    elif report.outcome == "failed" and report.reads:
        found.append(
            "it had read GPU values that a dry run doesn't compute (see numbers); with real values"
            " it may not fail"
        )
    if report.outcome != "ended" and report.cards_asked > report.card.count:
        found.append(f"it needs {report.cards_asked} cards: give --gpus {report.cards_asked}")
    if report.older:
        found.append(
            f"{clean(report.older[0])} is from an earlier run"
            + (f", and so are {len(report.older) - 1} more" if len(report.older) > 1 else "")
        )
    caught = sum(device.oom_count for one in report.processes for device in one.devices)
    if caught and report.outcome == "ended":
        found.append(
            f"{counted(caught, 'request')} failed and the program continued; see memreplay oom"
            f" {clean(report.shown or '')}"
        )
    return found


def _missing_bytes(report: DryrunReport) -> int:
    """Return how much more memory the program would have needed to get past its failure."""
    if report.outcome == "out_of_memory":
        for device in report.ooms:
            for one in device.ooms:
                return one.request_bytes - (one.device_free_bytes or 0)
        return OUTSIDE_ERROR
    return -report.spare_bytes


def _files(names: Sequence[str]) -> str:
    """Return the last files, and how many others there are."""
    shown = ", ".join(map(clean, names[-_MOST_FILES:]))
    others = len(names) - _MOST_FILES
    return f"{shown}, and {others} more before" if others > 0 else shown


def _name(one: DryProcess) -> str:
    return f"rank {one.rank}" if one.rank is not None else f"process {one.pid}"
