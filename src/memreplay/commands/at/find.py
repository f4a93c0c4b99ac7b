"""Compute each device's live set at a moment, as groups and as single allocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

import memreplay._core as _core
from memreplay.analysis.calls.calltree import TreeOptions, call_tree
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.moments.moments import no_annotations_text, resolve
from memreplay.analysis.moments.records import DeviceAnnotations
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import check_reserved, chosen_usages, fitting_by
from memreplay.analysis.selecting.parsing import parsed_when
from memreplay.analysis.selecting.selection import Selection, WithHolders, WithRules
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.at.result import (
    AtReport,
    DeviceAt,
    FoundAllocation,
    LiveAllocation,
    Lived,
    Stack,
)
from memreplay.declared import Opt
from memreplay.errors import UsageError
from memreplay.snapshot.model import Frame, When
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.analysis.caught.catching import Catching
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

EMPTY_STACK = 0


class AtOptions(TreeOptions, frozen=True):
    """Options for what else to show at a moment."""

    list: Annotated[
        bool,
        Opt(
            "Also list the --top largest allocations one by one.",
            brief="Also list single allocations.",
        ),
    ] = False
    annotations: Annotated[
        bool,
        Opt(
            "Show a table of all annotations: usage at the start and end of each, and the peak in"
            " between.",
            brief="Show all annotations, with the peak within each.",
        ),
    ] = False
    caught: WithRules = False
    holders: WithHolders = False


@takes(selection=Selection, options=AtOptions)
def at_report(
    snap: Snapshot,
    when: When | str | int | Sequence[When | str | int],
    selection: Selection,
    options: AtOptions,
) -> AtReport:
    """Return each device's live set at one or several moments.

    Each `when` is a When or text: "peak:2", "oom", "step:3", "1.5s", an event's number, an
    annotation's name, an address (docs/at.md). `tree` gives a call tree in place of groups,
    `list` adds the single allocations, `caught` adds what each category rule matched, `holders`
    adds which Python objects kept the memory alive, and `annotations` adds the usage at `top`
    annotations. With `fold`, stacks that differ only in
    plumbing frames are merged. A device without the moment is left out, and `missing` says why.
    Raises UsageError if no device has it, and for `list` with reserved memory, which has no
    allocations.
    """
    moments = [parsed_when(one) for one in ([when] if isinstance(when, (str, int, When)) else when)]
    options.check(selection)
    rules = None
    if options.caught:
        from memreplay.analysis.caught.catching import catching  # imported late: rarely used

        rules = catching(snap, selection)
    by = fitting_by(selection.measure, selection.by, by_request=True)
    check_reserved(by, selection.measure, selection.pool, selection.stream)
    if options.list and selection.measure == "reserved":
        raise UsageError("reserved memory has no allocations to list; choose another --measure")
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold and not options.tree)
    usages = chosen_usages(snap, selection)
    verdicts = [verdict(snap, usage, strict=selection.strict) for usage in usages]
    found: list[DeviceAt] = []
    missing: list[str] = []
    for moment in moments:
        there = [_resolved(snap, usage, moment) for usage in usages]
        errors = [event for event in there if isinstance(event, str)]
        if errors and len(errors) == len(there):
            raise UsageError(errors[0])
        missing += errors
        for usage, event, trust in zip(usages, there, verdicts, strict=True):
            if not isinstance(event, str):
                held = _Held(usage, moment, event, (grouper, rules), trust)
                found.append(_device_at(held, selection.top, options))
    annotations: tuple[DeviceAnnotations, ...] | UnsetType = UNSET
    if options.annotations:
        from memreplay.analysis.moments.stages import device_stages

        annotations = tuple(
            device_stages(snap, usage, trust, selection.top)
            for usage, trust in zip(usages, verdicts, strict=True)
        )
        if usages and not any(one.annotations_total for one in annotations):
            raise UsageError(no_annotations_text(snap, usages[0].replay))
    return AtReport(
        file=snap.file,
        measure=selection.measure,
        by=by,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        missing=tuple(dict.fromkeys(missing)),
        devices=tuple(found),
        annotations=annotations,
    )


def _resolved(snap: Snapshot, usage: Usage, when: When) -> int | str:
    """Return the moment's event, or the reason why the device has none.

    The reason is text, because an exception's traceback would keep all intermediate results in
    memory.
    """
    try:
        return resolve(snap, usage, when)
    except UsageError as error:
        return str(error)


class _Held(NamedTuple):
    """One device's live set after the moment's event."""

    usage: Usage
    moment: When
    event: int
    groupers: tuple[Grouper, Catching | None]
    """Groupers for the groups and, if requested, for what category rules matched."""
    trust: Verdict


def _device_at(held: _Held, top: int, options: AtOptions) -> DeviceAt:
    """Return one device's live set after an event."""
    usage, when, event, (grouper, rules), trust = held
    replay = usage.replay
    live = usage.bytes_at(event)
    who = grouper.held(usage, event, top, live)
    facts = device_facts(grouper.snap, replay, trust)
    allocations: tuple[LiveAllocation, ...] | UnsetType = UNSET
    stacks: tuple[Stack, ...] | UnsetType = UNSET
    if options.list:
        allocations, stacks = _listed(usage, event, grouper, top)
    return DeviceAt(
        **inlined(DeviceAt, replace(facts, start_us=replay.origin_us), who),
        measure=usage.measure,
        moment=when,
        event_index=event,
        time_us=replay.time_us(event),
        live_bytes=live,
        peak_bytes=usage.peak.bytes,
        allocations=allocations,
        stacks=stacks,
        allocation=_found(usage, event, grouper, when) if when.kind == "address" else UNSET,
        caught=UNSET if rules is None else rules.of(usage, event, top),
        held_by=grouper.held_by(usage, event, top) if options.holders else UNSET,
        tree=call_tree(usage, event, grouper, options) if options.tree else UNSET,
    )


def _found(usage: Usage, event: int, grouper: Grouper, when: When) -> FoundAllocation:
    """Return the allocation at the address that defines a moment."""
    from memreplay.analysis.moments.addresses import life_of

    rows = _Rows(usage, event, grouper)
    life = life_of(usage, when)
    native = usage.native
    if life.carried:
        n_bytes = memoryview(native.carried_weights())[life.row]
        end = memoryview(native.carried_ends())[life.row]
        row = rows.carried(life.row, n_bytes, end)
    else:
        n_bytes = native.weight(life.row)
        row = rows.allocated(life.row, n_bytes, memoryview(native.ends())[life.row])
    (stack,) = rows.stacks
    return FoundAllocation(
        number=life.number,
        total=life.total,
        **{name: getattr(row, name) for name in Lived.__struct_fields__},
        label=stack.label,
        user=stack.user,
        libraries=stack.libraries,
        frames=stack.frames,
    )


def _listed(
    usage: Usage, event: int, grouper: Grouper, top: int
) -> tuple[tuple[LiveAllocation, ...], tuple[Stack, ...]]:
    """Return the live allocations and their distinct stacks."""
    rows = _Rows(usage, event, grouper)
    allocations = tuple(
        rows.carried(index, n_bytes, end) if carried else rows.allocated(index, n_bytes, end)
        for index, carried, n_bytes, end in usage.largest(event, top)
    )
    return allocations, tuple(rows.stacks)


class _Made(NamedTuple):
    """The known facts about an allocation's creation. Carried-over blocks have no event."""

    address: int
    stack: int
    stream: int | None
    pool: tuple[int, int] | None
    event: int | None = None
    time_us: int | None = None


class _Rows:
    """Formats a device's live allocations after an event."""

    def __init__(self, usage: Usage, event: int, grouper: Grouper) -> None:
        replay = usage.replay
        self.snap = grouper.snap
        self.usage = usage
        self.grouper = grouper
        self.replay = replay
        self.event = event
        self.now_us = replay.clock_us(event)
        self.base = {name: replay.carried(name) for name in ("address", "stack", "block")}
        # Caches for stacks and pools.
        self.stacks: list[Stack] = []
        self.places: dict[int, int] = {}  # maps names to stack indices
        self.pools: dict[int, tuple[int, int] | None] = {}
        self.time = replay.column("time")
        self.clock = replay.clock

    def allocated(self, index: int, n_bytes: int, end: int) -> LiveAllocation:
        """Return a recorded allocation. `index`: its alloc event, counted from the first selected
        event.
        """
        made = _Made(
            address=self._of_event("address", index),
            stack=self._of_event("stack", index),
            stream=self._of_event("stream", index),
            pool=self._pool_of_event(index),
            event=index + self.replay.first_event,
            time_us=self._time_us(index),
        )
        return self._spelled(made, n_bytes, end)

    def carried(self, index: int, n_bytes: int, end: int) -> LiveAllocation:
        """Return the carried-over block with this number."""
        block = self.base["block"][index]
        stream: int | None = None
        pool: tuple[int, int] | None = None
        if end != _core.ABSENT_ID:
            stream, pool = self._of_event("stream", end), self._pool_of_event(end)
        elif block != _core.ABSENT_ID:
            stream, pool = self._of_segment(block)
        made = _Made(self.base["address"][index], self.base["stack"][index], stream, pool)
        return self._spelled(made, n_bytes, end)

    def _spelled(self, made: _Made, n_bytes: int, end: int) -> LiveAllocation:
        address, stack, stream, pool, event, time = made
        name = self.grouper.stack_name(stack, carried=event is None)
        place = self.places.setdefault(name, len(self.stacks))
        if place == len(self.stacks):
            self.stacks.append(self._stack(name))
        ended = end != _core.ABSENT_ID
        free_event = end + self.replay.first_event if ended else None
        return LiveAllocation(
            address=address,
            bytes=n_bytes,
            alloc_event=event,
            alloc_us=time,
            age_events=None if event is None else self.event - event,
            age_us=self._age_us(event),
            free_event=free_event,
            free_us=self._time_us(end) if ended else None,
            freed_at=self._freed_at(stack, end) if ended else None,
            stream=stream,
            pool=pool,
            label=self.stacks[place].label,
            stack=place,
        )

    def _stack(self, name: int) -> Stack:
        found = self.grouper.stack_group(self.usage, name, 0, 0, 0.0)
        return Stack(
            label=found.label, user=found.user, libraries=found.libraries, frames=found.frames
        )

    def _time_us(self, index: int) -> int | None:
        """Like `Replay.time_us`, but the event has to exist."""
        column = self.time
        value = column if isinstance(column, int) else column[index]
        return None if value == _core.ABSENT_TIME else value

    def _age_us(self, alloc: int | None) -> int | None:
        if alloc is None or self.now_us is None:
            return None
        if self.clock is None:
            then = self._time_us(alloc - self.replay.first_event)
            return None if then is None else self.now_us - then
        value: int = self.clock[alloc - self.replay.first_event]
        return None if value == _core.ABSENT_TIME else self.now_us - value

    def _freed_at(self, stack: int, end: int) -> Frame | None:
        """Return the frame that freed an allocation.

        Return None if stacks of frees weren't recorded, because a free then has the allocation's
        stack.
        """
        its = self._of_event("stack", end)
        if its in (stack, EMPTY_STACK) or self.action(end) == "alloc":
            return None
        return self.snap.frame(self.grouper.label_frame(self.usage, its))

    def action(self, index: int) -> str | None:
        return self.snap.action_name(self._of_event("action", index))

    def _of_event(self, name: str, index: int) -> int:
        return self.replay.value(name, index + self.replay.first_event)

    def _pool_of_event(self, index: int) -> tuple[int, int] | None:
        pool = self._of_event("pool", index)
        if pool not in self.pools:
            self.pools[pool] = self.snap.pool_id(pool)
        return self.pools[pool]

    def _of_segment(self, block: int) -> tuple[int, tuple[int, int] | None]:
        """Return the stream and pool of the segment that contains a block in the final state."""
        rows = self.snap.native.rows
        segment = memoryview(rows("block", "segment"))[block]
        pool = memoryview(rows("segment", "pool"))[segment]
        return memoryview(rows("segment", "stream"))[segment], self.snap.pool_id(pool)
