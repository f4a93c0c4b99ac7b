"""Build a dry run's report: how the program ended, how much memory it used, and what is unknown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun.budgets import Judge
from memreplay.commands.dryrun.changing import changes_of
from memreplay.commands.dryrun.estimates import Estimates
from memreplay.commands.dryrun.hints import hint_of
from memreplay.commands.dryrun.processes import most_on_a_card, processes_of
from memreplay.commands.dryrun.result import (
    DryCard,
    DryProcess,
    DryrunReport,
    Outcome,
    Verdict,
)
from memreplay.commands.dryrun.unknowns import reads_of, unanswered_of, workspaces_of
from memreplay.commands.oom.find import OomOptions, oom_report
from memreplay.commands.peak.find import peak_report
from memreplay.snapshot.recorded_holders import RecordedHolders, largest_holders
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.commands.oom.result import DeviceOoms
    from memreplay.commands.peak.result import DevicePeak
    from memreplay.dryrun.launch import Ended, Process, Setup
    from memreplay.snapshot.snapshot import Snapshot


class Run(NamedTuple):
    """A program that was run on a fake card."""

    command: Sequence[str]
    setup: Setup
    ended: Ended


def dryrun_report(
    run: Run,
    files: Mapping[int, str],
    *,
    budget: Budget | None = None,
    selection: Selection | None = None,
) -> DryrunReport:
    """Build the report. `files`: where to keep each process's snapshot, by process id. Snapshots
    are read from where the processes wrote them.

    Raises SnapshotError for an unreadable snapshot.
    """
    selection = selection or Selection()
    command, setup, ended = run
    judge = Judge(budget) if budget is not None else None
    estimating = Estimates()
    processes = processes_of(ended.processes, files, setup.card, estimating, judge)
    outcome = _outcome(ended, processes)
    most = most_on_a_card(ended.processes, processes, setup.card.context_bytes)
    spare_bytes = setup.total_bytes - most.reserved - most.outside
    written = {one.pid: str(one.pickle) for one in ended.processes if one.pickle is not None}
    raw = {name: written[pid] for pid, name in files.items()}
    shown = _shown(processes, outcome, raw)
    peaks: tuple[DevicePeak, ...] = ()
    ooms: tuple[DeviceOoms, ...] = ()
    held_by: RecordedHolders | None = None
    if shown is not None:
        with open_snapshot(raw.get(shown, shown)) as snap:
            busy = {one.device for each in processes if each.file == shown for one in each.devices}
            peaks = tuple(
                one
                for one in peak_report(snap, selection).devices
                if one.device in busy or not busy
            )
            if outcome == "out_of_memory":
                ooms = _ooms(snap, selection)
            held_by = largest_holders(snap)
    reads, workspaces, unanswered = reads_of(ended), workspaces_of(ended), unanswered_of(ended)
    estimates = estimating.found()
    lost = any(one.lost for one in processes)
    return DryrunReport(
        command=tuple(command),
        card=DryCard(
            key=setup.card.key,
            name=setup.card.name,
            total_memory_bytes=setup.total_bytes,
            context_bytes=setup.card.context_bytes,
            outside_measured=setup.card.is_outside_measured,
            count=setup.cards,
        ),
        world_size=setup.ranks.size if setup.ranks is not None else None,
        ranks_ran=setup.ranks.ranks if setup.ranks is not None else (),
        settings=setup.settings,
        program_changes=changes_of(setup.changes, ended.processes),
        torch=ended.torch.version,
        outcome=outcome,
        exit_code=ended.status,
        seconds=round(ended.seconds, 3),
        error=_error(ended.processes),
        hint=hint_of(ended) if outcome == "failed" else None,
        stopped_by=ended.stopped_by,
        cards_asked=ended.cards,
        verdict=_verdict(
            outcome,
            spare_bytes >= 0,
            broken=judge is not None and judge.broken,
            all_known=not lost,
        ),
        peak_bytes=most.reserved,
        outside_bytes=most.outside,
        spare_bytes=spare_bytes,
        shared=most.shared,
        budget=judge.headline if judge is not None else None,
        exact=not (reads or workspaces or estimates or unanswered or lost),
        reads=reads,
        workspaces=workspaces,
        estimates=estimates,
        workspaces_source=None if setup.workspaces is None else setup.workspaces.where,
        unanswered=unanswered,
        routing=setup.routing,
        no_values=next(
            (one.facts["no_values"] for one in ended.processes if one.facts.get("no_values")), ""
        ),
        processes=processes,
        shown=shown,
        peaks=peaks,
        ooms=ooms,
        held_by=held_by,
    )


def _outcome(ended: Ended, processes: Sequence[DryProcess]) -> Outcome:
    if ended.timed_out:
        return "timed_out"
    if ended.interrupted:
        return "interrupted"
    if not ended.status:
        return "ended"
    raised = [one.facts["raised"] for one in ended.processes if one.facts.get("raised")]
    failed = any(device.oom_count for one in processes for device in one.devices)
    if any(one["out_of_memory"] for one in raised) or (failed and not raised):
        return "out_of_memory"
    return "failed" if ended.status > 0 else "killed"


def _verdict(outcome: Outcome, enough: bool, *, broken: bool, all_known: bool) -> Verdict:
    if outcome == "out_of_memory":
        return "does_not_fit"
    if outcome != "ended":
        return "not_known"
    if not enough:
        return "does_not_fit"
    if broken:
        return "over_budget"
    return "fits" if all_known else "not_known"


def _error(processes: Sequence[Process]) -> str | None:
    for one in processes:
        raised = one.facts.get("raised")
        if raised:
            return f"{raised['type']}: {raised['words']}" if raised["words"] else raised["type"]
    return None


def _shown(processes: Sequence[DryProcess], outcome: Outcome, raw: Mapping[str, str]) -> str | None:
    """Return the snapshot to report on. If the program recorded memory itself, this may be a
    snapshot that it wrote.
    """

    def rank(one: DryProcess) -> tuple[bool, int]:
        failed = outcome == "out_of_memory" and any(each.oom_count for each in one.devices)
        return failed, max((each.reserved_peak_bytes for each in one.devices), default=0)

    candidates = [one for one in processes if one.file is not None]
    if not candidates:
        return None
    best = max(candidates, key=rank)
    if best.recorded_by_itself and best.dumped and os.path.isfile(best.dumped[-1]):
        with open_snapshot(raw[best.file or ""]) as snap:
            if not snap.has_events:
                return best.dumped[-1]
    return best.file


def _ooms(snap: Snapshot, selection: Selection) -> tuple[DeviceOoms, ...]:
    """Report on the last failed request, which ended the program."""
    devices: list[DeviceOoms] = []
    for device in snap.devices:
        number = snap.replay(device).events_of("oom")
        if number:
            options = OomOptions(oom=len(number), most=1)
            found = oom_report(snap, replace(selection, device=device), options)
            devices += found.devices
    return tuple(devices)
