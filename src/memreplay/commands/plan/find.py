"""Find the cheapest changes with which each device's program fits a card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.requesting import requester_of_stack
from memreplay.analysis.planning.lever import PRICES, Recording
from memreplay.analysis.planning.modules import without_title
from memreplay.analysis.planning.search import Search, cost_of, unchecked
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import FILTERS, Selection
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.analysis.simulating.cards import CardSize
from memreplay.analysis.simulating.verdicts import recording_verdict
from memreplay.analysis.steps.boundaries import find_steps
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import exactness_of
from memreplay.commands.plan.result import (
    DevicePlans,
    FailedPlan,
    Floor,
    Planned,
    PlannedLever,
    PlanReport,
    Tradeoff,
    Verified,
)
from memreplay.declared import Opt, Options
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.analysis.planning.lever import Lever
    from memreplay.analysis.planning.search import Check, Checked, Plan
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

NO_SIZE = "say which card the program should fit, such as --fit 24GiB"


class PlanOptions(Options, frozen=True):
    """Options for the card to fit."""

    fit: Annotated[
        int | None,
        Opt(
            "The card's total memory, such as 24GiB, including what CUDA itself takes.",
            "SIZE",
            parse=parse_size,
            least=1,
        ),
    ] = None

    def card(self) -> int:
        """Return the card's memory. Raises UsageError if it isn't given."""
        if self.fit is None:
            raise UsageError(NO_SIZE)
        return self.fit


@takes(
    selection=Selection,
    options=PlanOptions,
    without=("measure", "by", "top", "pool", "stream", "fold", *FILTERS),
)
def plan_report(snap: Snapshot, selection: Selection, options: PlanOptions) -> PlanReport:
    """Return at most three plans per device with which the recorded program fits a card with `fit`
    bytes in all.

    Raises UsageError without `fit`, and NothingToTellError if nothing was recorded.
    """
    for device in chosen_devices(snap, selection):
        snap.replay(device)  # a missing device is reported before a missing size
    return planned(snap, selection, options.card(), lambda _device: unchecked)


def planned(
    snap: Snapshot, selection: Selection, total: int, checks: Callable[[int], Check]
) -> PlanReport:
    """Return plans for each device. `total`: the card's bytes. `checks`: returns what runs a
    device's plans.
    """
    devices = [at for at in chosen_devices(snap, selection) if snap.replay(at).allocations]
    if not devices:
        raise NothingToTellError("no allocation was recorded, so there is nothing to plan")
    return PlanReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(
            _device(snap, snap.replay(at), selection, total, checks(at)) for at in devices
        ),
    )


def _device(
    snap: Snapshot, replay: Replay, selection: Selection, total: int, check: Check
) -> DevicePlans:
    grouper = Grouper(snap, "category", selection.rules)
    # A dry run notes what CUDA and the libraries that the program uses take, on any card. A
    # measured amount may include other programs.
    noted = 0 if replay.card.measured else replay.card.context_bytes or 0
    card = CardSize(total, max(replay.context_bytes(total), noted))
    recording = Recording.made(snap, replay, grouper, steps_of(snap, replay))
    # In a dry run, no kernel runs, so its times say nothing about the GPU.
    measured = snap.recorder.get("recorder") == "record"
    search = Search(recording, card.usable, measured=measured, check=check)
    fits = replay.simulate(program_memory=card.usable).fits
    checked = check(()) if fits else None
    fits = fits and (checked is None or not checked.failure)
    trust = recording_verdict(snap, replay, strict=selection.strict)
    floor = search.floor()
    plans = [] if fits else search.plans()
    recorded = replay.recorded.outcome
    return DevicePlans(
        **inlined(DevicePlans, device_facts(snap, replay, trust)),
        total_memory_bytes=card.total,
        context_bytes=card.context,
        program_memory_bytes=card.usable,
        requested_peak_bytes=recorded.requested_peak_bytes,
        reserved_peak_bytes=recorded.reserved_peak_bytes,
        fits=fits,
        verified=_verified(checked, recorded.requested_peak_bytes),
        ran_out=bool(recording.failed),
        modules_known=recording.notes is not None,
        floor=Floor(
            bytes=floor.bytes,
            event_index=floor.event + replay.first_event,
            category_bytes=floor.category_bytes,
        ),
        plans=tuple(_planned(recording, plan, card.usable) for plan in plans),
        failed_plans=tuple(
            FailedPlan(
                lever_names=tuple(one.named for one in plan.levers),
                requested_peak_bytes=plan.requested_bytes,
                reserved_peak_bytes=plan.simulated.outcome.reserved_peak_bytes,
                reason=plan.checked.failure,
            )
            for plan in search.refuted
            if plan.checked is not None
        ),
        tradeoffs=tuple(
            Tradeoff(
                lever_names=tuple(one.named for one in some.levers),
                requested_peak_bytes=some.requested_bytes,
                price=PRICES[cost_of(some.levers).price],
                time_share=_time(some.levers),
            )
            for some in search.tradeoffs()
        ),
    )


def steps_of(snap: Snapshot, replay: Replay) -> list[int]:
    """Return the events at which steps begin; none if they aren't known."""
    found = find_steps(snap, replay.measure("requested"))
    if found.source is None or found.source.is_whole:
        return []
    return [one.first for one in found.pieces if 0 <= one.first < replay.events]


def _planned(recording: Recording, plan: Plan, usable: int) -> Planned:
    outcome = plan.simulated.outcome
    return Planned(
        levers=tuple(_lever(recording, one) for one in plan.levers),
        requested_peak_bytes=plan.requested_bytes,
        exactness=plan.certainty if plan.checked is None else "verified",
        reserved_exactness=exactness_of(
            plan.simulated.exact and all(one.how == "set" for one in plan.levers)
        ),
        spare_bytes=usable - outcome.reserved_peak_bytes
        if plan.checked is None
        else plan.checked.spare_bytes,
        price=PRICES[plan.cost.price],
        time_share=_time(plan.levers),
        simulated=outcome,
        verified=_verified(plan.checked, plan.requested_bytes),
    )


def _verified(checked: Checked | None, predicted: int) -> Verified | None:
    if checked is None or checked.failure:
        return None
    return Verified(
        requested_peak_bytes=checked.requested_bytes,
        reserved_peak_bytes=checked.reserved_bytes,
        spare_bytes=checked.spare_bytes,
        error_share=round(predicted / max(checked.requested_bytes, 1) - 1, 6),
        exact=checked.exact,
    )


def _lever(recording: Recording, one: Lever) -> PlannedLever:
    frame = None
    if one.place is not None:
        usage = recording.replay.measure("requested")
        code = requester_of_stack(recording.grouper, usage, one.place.stack)
        frame = code.frames[code.user[0]] if code.user else None
    return PlannedLever(
        name=one.name,
        argument=one.argument,
        title=one.title,
        price=one.price,
        time_share=one.time_share,
        cost_reason=one.why,
        how=one.how,
        edit=one.edit,
        exactness=one.certainty,
        estimate_reason=one.guess,
        module_names=tuple(without_title(unit.name) for unit in one.units) or UNSET,
        frame=UNSET if frame is None else frame,
    )


def _time(some: Sequence[Lever]) -> float | None:
    """Return the levers' additional time; None if any of them is unknown."""
    shares = [one.time_share for one in some]
    if any(one is None for one in shares):
        return None
    return round(sum(one or 0.0 for one in shares), 4)
