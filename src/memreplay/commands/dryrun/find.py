"""What a dry run comes to: how it ended, what it took, what is not known of it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun.result import (
    DryCard,
    DryDevice,
    DryProcess,
    DryrunReport,
    Outcome,
    Unknown,
    ValueRead,
    Verdict,
)
from memreplay.commands.gate.find import gate_file
from memreplay.commands.gate.telling import gate_report
from memreplay.commands.oom.find import oom_report
from memreplay.commands.peak.find import peak_report
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.commands.gate.result import GatedFile
    from memreplay.commands.oom.result import DeviceOoms
    from memreplay.commands.peak.result import DevicePeak
    from memreplay.dryrun.launch import Ended, Process, Setup
    from memreplay.snapshot.snapshot import Snapshot

# Operators whose results have sizes that depend on the values they read.
SIZES = frozenset(("nonzero", "masked_select", "unique", "repeat_interleave", "bincount"))
# Functions that may say a size. Those that compute, set, launch or profile say none.
_MAY_SAY = re.compile(
    r"^(?!cupti|nvtx|__cudaGetKernel)(?:.*[Ss]ize|.*Query|.*Get(?!Error|Version))"
)
_STATISTICS = {
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "allocated_peak_bytes": "allocated_bytes.all.peak",
    "requested_peak_bytes": "requested_bytes.all.peak",
    "ooms": "num_ooms",
    "retries": "num_alloc_retries",
}


def dryrun_report(
    command: Sequence[str],
    setup: Setup,
    ended: Ended,
    files: Mapping[int, str],
    *,
    budget: Budget | None = None,
    selection: Selection | None = None,
) -> DryrunReport:
    """The report of a run whose snapshots lie at `files`, by the numbers of their processes.

    Raises SnapshotError for a snapshot that cannot be read.
    """
    selection = selection or Selection()
    capacity = setup.total_bytes - setup.card.context_bytes
    gated: list[GatedFile] = []
    processes = tuple(_process(one, files.get(one.pid), budget, gated) for one in ended.processes)
    outcome = _outcome(ended, processes)
    used = _used(ended.processes, processes)
    peak_bytes = max((sum(each) for each in used.values()), default=0)
    shown = _shown(processes, outcome)
    peaks: tuple[DevicePeak, ...] = ()
    ooms: tuple[DeviceOoms, ...] = ()
    line, broken = None, False
    if shown is not None:
        with open_snapshot(shown) as snap:
            busy = {one.device for each in processes if each.file == shown for one in each.devices}
            peaks = tuple(
                one
                for one in peak_report(snap, selection).devices
                if one.device in busy or not busy
            )
            if outcome == "out_of_memory":
                ooms = _ooms(snap, selection)
    if budget is not None:
        judged = gate_report(gated)
        line, broken = judged.headline, not judged.passed
    reads, workspaces, unanswered = _reads(ended), _workspaces(ended), _unanswered(ended)
    return DryrunReport(
        command=tuple(command),
        card=DryCard(
            key=setup.card.key,
            name=setup.card.name,
            total_bytes=setup.total_bytes,
            context_bytes=setup.card.context_bytes,
            count=setup.cards,
        ),
        settings=setup.settings,
        torch=ended.torch.version,
        outcome=outcome,
        status=ended.status,
        seconds=round(ended.seconds, 3),
        error=_error(ended.processes),
        verdict=_verdict(outcome, peak_bytes <= capacity, broken=broken),
        peak_bytes=peak_bytes,
        spare_bytes=capacity - peak_bytes,
        shared=any(len(each) > 1 for each in used.values()),
        budget=line,
        exact=not reads and not workspaces and not unanswered,
        reads=reads,
        workspaces=workspaces,
        unanswered=unanswered,
        processes=processes,
        shown=shown,
        peak=peaks,
        oom=ooms,
    )


def _process(
    process: Process, file: str | None, budget: Budget | None, gated: list[GatedFile]
) -> DryProcess:
    """One process; its snapshot, which is read once for that, is held against the budget."""
    facts = process.facts
    statistics = facts.get("statistics", [])
    devices = [
        DryDevice(device=i, **{name: one.get(key, 0) for name, key in _STATISTICS.items()})
        for i, one in enumerate(statistics)
        if one.get("allocation.all.allocated") or one.get("num_ooms")
    ]
    if file is not None:
        with open_snapshot(file) as snap:
            # A program may set the counters back: what was recorded cannot be below.
            devices = [_at_least(one, snap) for one in devices]
            if budget is not None:
                gated.append(gate_file(snap, (budget,)))
    return DryProcess(
        pid=process.pid,
        rank=facts.get("rank"),
        file=file,
        last_call=None if facts else process.last_call,
        recorded_by_itself=bool(facts.get("recorded_by_itself")),
        dumped=tuple(facts.get("dumped", ())),
        devices=tuple(devices),
    )


def _at_least(device: DryDevice, snap: Snapshot) -> DryDevice:
    if device.device not in snap.devices:
        return device
    replay = snap.replay(device.device)
    found = {
        f"{name}_peak_bytes": max(
            getattr(device, f"{name}_peak_bytes"), replay.measure(name).peak.bytes
        )
        for name in ("reserved", "allocated", "requested")
    }
    return replace(device, **found)


def _outcome(ended: Ended, processes: Sequence[DryProcess]) -> Outcome:
    if ended.timed_out:
        return "timed_out"
    if ended.interrupted:
        return "interrupted"
    if not ended.status:
        return "ended"
    raised = [one.facts["raised"] for one in ended.processes if one.facts.get("raised")]
    failed = any(device.ooms for one in processes for device in one.devices)
    if any(one["out_of_memory"] for one in raised) or (failed and not raised):
        return "out_of_memory"
    return "failed" if ended.status > 0 else "killed"


def _verdict(outcome: Outcome, enough: bool, *, broken: bool) -> Verdict:
    if outcome == "out_of_memory":
        return "does_not_fit"
    if outcome != "ended":
        return "not_known"
    if not enough:
        return "does_not_fit"
    return "over_budget" if broken else "fits"


def _error(processes: Sequence[Process]) -> str | None:
    for one in processes:
        raised = one.facts.get("raised")
        if raised:
            return f"{raised['type']}: {raised['words']}" if raised["words"] else raised["type"]
    return None


def _used(raw: Sequence[Process], processes: Sequence[DryProcess]) -> dict[int, list[int]]:
    """Of each card what every process that used it reserved at most, by the machine's numbers."""
    found: dict[int, list[int]] = {}
    for one, process in zip(raw, processes, strict=True):
        visible = [
            int(word) for word in (one.facts.get("visible") or "").split(",") if word.isdigit()
        ]
        for device in process.devices:
            i = device.device
            card = visible[i] if i < len(visible) else i
            found.setdefault(card, []).append(device.reserved_peak_bytes)
    return found


def _shown(processes: Sequence[DryProcess], outcome: Outcome) -> str | None:
    """The snapshot to tell of. Of a program that recorded by itself it may be one that it wrote."""

    def rank(one: DryProcess) -> tuple[bool, int]:
        failed = outcome == "out_of_memory" and any(each.ooms for each in one.devices)
        return failed, max((each.reserved_peak_bytes for each in one.devices), default=0)

    candidates = [one for one in processes if one.file is not None]
    if not candidates:
        return None
    best = max(candidates, key=rank)
    if best.recorded_by_itself and best.dumped and os.path.isfile(best.dumped[-1]):
        with open_snapshot(best.file or "") as snap:
            if not snap.has_events:
                return best.dumped[-1]
    return best.file


def _ooms(snap: Snapshot, selection: Selection) -> tuple[DeviceOoms, ...]:
    """The last request that failed, which ended the program."""
    devices: list[DeviceOoms] = []
    for device in snap.devices:
        number = snap.replay(device).events_of("oom")
        if number:
            found = oom_report(snap, selection, device=device, number=len(number), most=1)
            devices += found.devices
    return tuple(devices)


def _reads(ended: Ended) -> tuple[ValueRead, ...]:
    counts: Counter[tuple[str, str, int, str, str]] = Counter()
    for process in ended.processes:
        for one in process.facts.get("reads", ()):
            key = one["operator"], one["file"], one["line"], one["function"], one["through"]
            counts[key] += one["count"]
    found = [
        ValueRead(operator, file, line, function, through, count, operator in SIZES)
        for (operator, file, line, function, through), count in counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.sizes, -one.count, one.file, one.line)))


def _workspaces(ended: Ended) -> tuple[Unknown, ...]:
    counts: Counter[str] = Counter()
    for process in ended.processes:
        counts.update(process.facts.get("workspaces", {}))
    return tuple(Unknown(name, n) for name, n in sorted(counts.items()) if n)


def _unanswered(ended: Ended) -> tuple[Unknown, ...]:
    counts: Counter[str] = Counter()
    for process in ended.processes:
        calls: Mapping[str, Any] = process.facts.get("unanswered", {})
        for number, n in calls.items():
            name = ended.unanswered[int(number)]
            if _MAY_SAY.search(name):
                counts[name] += n
    return tuple(Unknown(name, n) for name, n in sorted(counts.items()))
