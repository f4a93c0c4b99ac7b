"""Explain failed requests: what was requested and available, why the request failed, and what would
help.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Struct
from msgspec.structs import replace

import memreplay._core as _core
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.kinds import categories_at, categories_source
from memreplay.analysis.groups.mapped import blockers_of, map_verdict
from memreplay.analysis.groups.requesting import requester_of
from memreplay.analysis.groups.ways import WAYS, is_of_parts
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import OF_ALLOCATIONS, Selection, TotalMemory
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import NOT_RECORDED, verdict
from memreplay.commands.oom.deciding import Deciding
from memreplay.commands.oom.result import (
    CachedName,
    CachedPart,
    Cause,
    DeviceOoms,
    LastState,
    Oom,
    OomReport,
    Remedy,
    RemedyName,
)
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.render.units import size
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_allocator import segment_bytes
from memreplay.snapshot.recorded_holders import largest_holders
from memreplay.snapshot.recorded_memory import card_samples, card_uses

if TYPE_CHECKING:
    from memreplay.commands.oom.outlook import Looking
    from memreplay.engine.query._blockmap import BlockMap
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_MIB = 1 << 20
SMALL_LIMIT = _MIB  # largest request that the small pool serves
# Memory that a process can hold outside its segments, such as for the CUDA context, kernels and
# NCCL. It's assumed if the recorder didn't measure it.
OWN_OVERHEAD = 1 << 30

FreeParts = dict[str, tuple[int, int]]


class _Failed(Struct, frozen=True):
    """A failed request. `free`: the driver's free bytes; 0 if unknown."""

    request: int
    needed: int
    free: int
    others: int
    """Memory that other processes may hold."""
    expandable: bool

    @property
    def missing(self) -> int:
        return max(0, self.needed - self.free)


class OomOptions(Options, frozen=True):
    """Options for which failed requests to explain, and for the card's size."""

    oom: Annotated[
        int,
        Opt(
            "Explain the N-th failed request; 0 for all of them.",
            "N",
            least=0,
        ),
    ] = 1
    most: int = 0
    """Number of failed requests to examine per device, from the first on, in addition to the chosen
    one; 0 for all.
    """
    total_memory: TotalMemory = None


@takes(selection=Selection, options=OomOptions, without=OF_ALLOCATIONS)
def oom_report(snap: Snapshot, selection: Selection, options: OomOptions) -> OomReport:
    """Report the out-of-memory events of every selected device.

    `oom`: the failed request to explain in detail (0: all). Apart from this one, only each device's
    first `most` are listed (0: all). `total_memory`: the card's memory in bytes, if known. Raises
    UsageError if no device has that many failed requests, or if the card is smaller than what was
    observed. With `fold`, stacks that differ only in plumbing frames are merged.
    """
    by, number = selection.by or "stack", options.oom
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold)
    # Group blockers by code, because a pool or stream only says where they are.
    pinning = Grouper(snap, "stack", fold=selection.fold) if is_of_parts(by) else grouper

    @cache
    def folded() -> Grouper:
        return grouper if selection.fold else Grouper(snap, by, selection.rules, fold=True)

    groupers = _Groupers(grouper, pinning, selection.top, folded)
    devices = tuple(
        _device(snap, snap.replay(device), groupers, options, strict=selection.strict)
        for device in chosen_devices(snap, selection)
    )
    found = max((device.ooms_total for device in devices), default=0)
    if not found:
        devices = tuple(
            replace(
                device, end=_last_state(snap, snap.replay(device.device), grouper, selection.top)
            )
            for device in devices
        )
    if found and number > found:
        there = "1 out-of-memory event" if found == 1 else f"{found} out-of-memory events"
        raise UsageError(f"this snapshot has {there} on one device; there is no number {number}")
    return OomReport(
        file=snap.file,
        by=by,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=devices,
        held_by=largest_holders(snap),
        card_memory=card_uses(snap, _chosen_times(devices, number)),
        chosen=number,
    )


def _chosen_times(devices: tuple[DeviceOoms, ...], number: int) -> dict[int, int | None]:
    """Return the time of the failed request that is explained, or of the first one."""
    return {
        device.device: one.time_us
        for device in devices
        for one in device.ooms
        if one.number == max(number, 1)
    }


class _Groupers(Struct, frozen=True):
    """The groupers for live allocations and for blockers."""

    live: Grouper
    blocking: Grouper
    top: int
    folded: Callable[[], Grouper]
    """Finds the largest holder, independently of the displayed key."""


def _device(
    snap: Snapshot, replay: Replay, groupers: _Groupers, options: OomOptions, *, strict: bool
) -> DeviceOoms:
    number, most, total_bytes = options.oom, options.most, options.total_memory
    events = replay.events_of("oom")
    free = _device_free(replay, events)
    trust = map_verdict(snap, replay, strict=strict)
    card = card_of(snap, replay, total_bytes)
    one = _Telling(snap, replay, groupers, card)
    return DeviceOoms(
        **inlined(DeviceOoms, device_facts(snap, replay, trust)),
        total_memory_bytes=card.bytes,
        total_memory_known=card.known,
        ooms_total=len(events),
        ooms=tuple(
            one.tell(at, event, free.get(event))
            for at, event in enumerate(events, 1)
            if not number or not most or at <= most or at == number
        ),
    )


class CardSize(Struct, frozen=True):
    """A card's memory."""

    bytes: int | None
    """None if it's unknown."""
    known: bool
    """Whether `bytes` is the card's size; otherwise it's the most memory observed on it."""


def card_of(snap: Snapshot, replay: Replay, total_bytes: int | None = None) -> CardSize:
    """Return the size of a device's card. `total_bytes`: the size that the user gave.

    Raises UsageError if the recording can't come from a card with `total_bytes`.
    """
    events = replay.events_of("oom")
    seen = _seen(replay, events, _device_free(replay, events))
    if total_bytes is not None:
        _check_card(snap, replay, total_bytes, seen)
    known = total_bytes if total_bytes is not None else snap.card_bytes(replay.device)
    if known is not None and seen is not None and known < seen:
        known = None  # the file contains an impossible value
    return CardSize(seen if known is None else known, known is not None)


def brief_ooms(snap: Snapshot, replay: Replay, card: CardSize, most: int) -> tuple[Oom, ...]:
    """Return a device's first `most` failed requests with their causes, but without remedies and
    outlook, whose simulations take long.
    """
    events = replay.events_of("oom")[:most]
    if not events:
        return ()
    free = _device_free(replay, events)
    grouper = Grouper(snap, "stack", fold=True)
    one = _Telling(snap, replay, _Groupers(grouper, grouper, 1, lambda: grouper), card)
    return tuple(one.brief(at, event, free.get(event)) for at, event in enumerate(events, 1))


def _last_state(snap: Snapshot, replay: Replay, grouper: Grouper, top: int) -> LastState | None:
    """Return the state at the end of a trace without failed requests. Return None if the end is
    outside the range, cut off or empty.
    """
    event = replay.start + replay.events
    active = replay.measure("active")
    used = active.end_bytes
    if not replay.reaches_end or snap.truncation is not None or not used:
        return None
    sums = replay.block_map(event).sums()
    held = grouper.held(active, event, top, used)
    recorded = not NOT_RECORDED.intersection(verdict(snap, active).reasons)
    return LastState(
        **inlined(LastState, held),
        event_index=event,
        time_us=replay.time_us(event),
        peak_event=active.peak.event_index if recorded else None,
        peak_bytes=active.peak.bytes if recorded else None,
        reserved_bytes=replay.measure("reserved").end_bytes if replay.shows_reserved else None,
        active_bytes=used,
        cached_bytes=sums["free"] if replay.shows_reserved else None,
        largest_free_bytes=sums["largest"] if replay.shows_reserved else None,
        categories_source=categories_source(snap),
        categories=categories_at(grouper, active, event),
    )


def _check_card(snap: Snapshot, replay: Replay, total_bytes: int, seen: int | None) -> None:
    """Raise UsageError if the recording can't come from a card with this much memory."""
    if seen is not None and total_bytes < seen:
        raise UsageError(
            f"--total-memory is below what device {replay.device} had: {size(seen)} were reserved"
            " or free at an out-of-memory event"
        )
    requested = replay.measure("requested")
    if total_bytes < requested.peak.bytes and verdict(snap, requested).exactness == "exact":
        raise UsageError(
            f"--total-memory is below what device {replay.device} had:"
            f" {size(requested.peak.bytes)} were requested at the peak; memreplay simulate shows"
            " whether the program fits on another card"
        )


def _device_free(replay: Replay, events: list[int]) -> dict[int, int]:
    """Return the driver's free bytes by event. Events without `device_free` have them in `addr`."""
    found = {}
    for event in events:
        value = replay.oom_free.get(event, replay.value("address", event) or None)
        if value is not None and value >= 0:
            found[event] = value
    return found


def _seen(replay: Replay, events: list[int], free: dict[int, int]) -> int | None:
    """Return the most memory observed on the card, which is reserved plus free memory."""
    reserved = replay.measure("reserved")
    return max((reserved.bytes_at(one) + free[one] for one in events if one in free), default=None)


# Number of groups without a stack: recorded without one, allocated before the recording, …
_WITHOUT_STACK = 4


class _Telling:
    """Explains one device's failed requests."""

    def __init__(
        self,
        snap: Snapshot,
        replay: Replay,
        groupers: _Groupers,
        card: CardSize,
    ) -> None:
        self.snap, self.replay = snap, replay
        self.grouper, self.pinning = groupers.live, groupers.blocking
        self.top, self.folded = groupers.top, groupers.folded
        self.card = card
        self.samples = {one.device: one for one in card_samples(snap)}.get(replay.device)
        self.active = replay.measure("active")
        self.deciding = Deciding(replay)

    @cached_property
    def looking(self) -> Looking:
        """Predicts what would have followed."""
        from memreplay.commands.oom.outlook import Looking  # imported late: rarely needed

        return Looking(self.snap, self.replay, self.deciding)

    def brief(self, number: int, event: int, free: int | None) -> Oom:
        """Return one request and its cause, without what simulations tell about it."""
        return self._failed(number, event, free)[0]

    def tell(self, number: int, event: int, free: int | None) -> Oom:
        """Explain one request."""
        oom, asked, judged, found = self._failed(number, event, free)
        largest, largest_bytes = self._largest(event, oom.active_bytes)
        outlook = self.looking.after(event, asked.missing, oom.asked_by, largest)
        pool_id = self.replay.value("pool", event)
        pool = None if pool_id == _core.ABSENT_ID else pool_id
        remedies = [
            self.deciding.decided(one, event)
            for one in _remedies(
                judged,
                asked,
                _Elsewhere(
                    largest_group=largest_bytes,
                    returnable=found.returnable[0],
                    private=_free_of_private(found, pool),
                    unneeded=outlook.unneeded_bytes,
                    trained=outlook.trained,
                ),
                limited=self.replay.settings.max_split_bytes >= 0,
            )
        ]
        if outlook.without_largest is not None:
            remedies[-1] = replace(remedies[-1], enough=outlook.without_largest, is_simulated=True)
        told = replace(
            oom,
            after_events=outlook.events,
            after_allocations=outlook.allocations,
            more_bytes=outlook.more_bytes,
            to_end_bytes=outlook.to_end_bytes,
            state_bytes=outlook.state_bytes,
        )
        return replace(told, remedies=tuple(_to_the_end(one, told) for one in remedies))

    def _noted_others(self, event: int) -> int | None:
        """Return the bytes of other processes at an event, as the recorder measured them."""
        if self.samples is None:
            return None
        near = self.samples.nearest(self.replay.time_us(event))
        return None if near is None else self.samples.other_bytes[near]

    def _failed(
        self, number: int, event: int, free: int | None
    ) -> tuple[Oom, _Failed, FreeParts, BlockMap]:
        """Return one request without remedies and outlook, and what these depend on."""
        replay = self.replay
        request, stream = replay.value("size", event), replay.value("stream", event)
        pool_id = replay.value("pool", event)
        pool = None if pool_id == _core.ABSENT_ID else pool_id
        small = request <= SMALL_LIMIT
        found = replay.block_map(event)
        sums = found.sums()
        judged = found.judge(request, pool, stream, small)
        reserved = replay.measure("reserved").bytes_at(event)
        # If the driver's value is missing, assume that no memory was free.
        needed = segment_bytes(max(request, 0), replay.settings)
        card = self.card.bytes
        outside = 0 if card is None or free is None else card - reserved - free
        known_outside = outside if self.card.known else 0
        noted = self._noted_others(event)
        others = max(0, outside - OWN_OVERHEAD) if noted is None else noted
        asked = _Failed(request, needed, free or 0, others, replay.settings.expandable)
        blockers, blockers_total, blockers_rest, blockers_count = blockers_of(
            self.active, found, self.pinning, self.top
        )
        used = self.active.bytes_at(event)
        default = (0, 0)
        oom = Oom(
            **inlined(Oom, self.grouper.held(self.active, event, self.top, used)),
            backend=replay.backend.name,
            number=number,
            event_index=event,
            time_us=replay.time_us(event),
            cause="request_too_large"
            if free is not None and request > max(reserved, used) + free + known_outside
            else _cause(judged, asked, others if self.card.known or noted is not None else 0),
            request_bytes=request,
            needed_bytes=asked.needed,
            missing_bytes=asked.missing,
            pool=default if pool is None else replay.pool_of(pool) or default,
            pool_assumed=pool is None and found.has_private_pools,
            stream=stream,
            kind="small" if small else "large",
            asked_by=requester_of(self.grouper, self.active, event),
            device_free_bytes=free,
            outside_bytes=outside,
            outside_known=self.card.known and free is not None,
            other_bytes=noted,
            reserved_bytes=reserved,
            active_bytes=used,
            allocated_bytes=replay.measure("allocated").bytes_at(event),
            requested_bytes=replay.measure("requested").bytes_at(event),
            pending_bytes=sums["pending"],
            cached_bytes=sums["free"],
            cached=_cached(judged),
            remedies=(),
            after_events=0,
            after_allocations=0,
            more_bytes=None,
            to_end_bytes=None,
            state_bytes=0,
            categories_source=categories_source(self.grouper.snap),
            categories=categories_at(self.grouper, self.active, event),
            pinned_bytes=found.blocked,
            pins=blockers,
            pins_total=blockers_total,
            pins_rest_bytes=blockers_rest,
            pins_rest_count=blockers_count,
        )
        return oom, asked, judged, found

    def _largest(self, event: int, used: int) -> tuple[tuple[Grouper, int], int]:
        """Return the number (-1 for keys without code) and bytes of the largest group.

        Memory without a stack isn't a holder, because it can be of any code.
        """
        grouper = self.folded()
        if any(WAYS[way].of_blocks for way in grouper.ways):
            groups = grouper.held(self.active, event, 1, used).groups
            return (grouper, -1), groups[0].bytes if groups else 0
        numbers, groups, *_ = grouper.keyed_groups(self.active, event, _WITHOUT_STACK + 1)
        by_code = any(WAYS[way].code for way in grouper.ways)
        for number, group in zip(numbers, groups, strict=True):
            if group.frames or not by_code:
                return (grouper, number), group.bytes
        return (grouper, -1), 0


def _cached(judged: FreeParts) -> tuple[CachedPart, ...]:
    names: tuple[CachedName, ...] = (
        "too_small",
        "split_limit",
        "other_stream",
        "other_kind",
        "other_pool",
    )
    found = [CachedPart(name, *judged[name]) for name in names]
    # Before a request fails, the allocator waits for all streams. After that, it only asks the
    # driver again and doesn't look in its cache.
    found.append(CachedPart("too_late", *judged["fits"]))
    return tuple(sorted((part for part in found if part.bytes), key=lambda part: -part.bytes))


def _cause(judged: FreeParts, asked: _Failed, others: int) -> Cause:
    """Return the first cause that applies to a failed request that would fit on the card (see
    docs/oom.md). `others` is the number of bytes that other processes are known to hold.
    """
    request = asked.request
    bytes_of = {name: of for name, (of, _) in judged.items()}
    largest = {name: one for name, (_, one) in judged.items()}
    if asked.free >= asked.needed:
        return "process_limit"
    if bytes_of["fits"]:
        return "pending_frees"
    if bytes_of["split_limit"]:
        return "split_limit"
    if bytes_of["pending"] and largest["pending"] >= request:
        return "pending_frees"
    if bytes_of["too_small"] >= request:
        return "fragmentation"
    if largest["other_stream"] >= request:
        return "other_stream"
    if max(largest["other_pool"], largest["other_kind"]) >= request:
        return "other_pool"
    # Only all parts together are enough, so name the largest one.
    shares: dict[Cause, int] = {
        "fragmentation": bytes_of["too_small"],
        "other_stream": bytes_of["other_stream"],
        "other_pool": bytes_of["other_pool"] + bytes_of["other_kind"],
        "pending_frees": bytes_of["pending"] + bytes_of["pending_elsewhere"],
    }
    if asked.free + sum(shares.values()) >= request:
        return max(shares, key=lambda name: shares[name])
    if asked.free + others >= asked.needed:
        return "other_processes"
    return "capacity"


def _to_the_end(one: Remedy, oom: Oom) -> Remedy:
    """Return the remedy, marked as insufficient if the rest of the optimizer step needs more than
    the remedy frees.
    """
    missing = oom.step_missing_bytes
    return replace(one, enough=False) if one.enough and one.bytes < missing else one


def _free_of_private(found: BlockMap, asked: int | None) -> int:
    """Return the free bytes in private pools other than the requested pool."""
    return sum(
        sums["free"]
        for pool, _, _, default, sums in found.shares()
        if not default and (pool is None or pool != asked)
    )


class _Elsewhere(Struct, frozen=True):
    """Bytes that could serve a request, other than its own pool's free blocks."""

    largest_group: int
    """Bytes of the largest holder."""
    returnable: int
    """Bytes that empty_cache() releases."""
    private: int
    """Free bytes in private pools."""
    unneeded: int
    """Bytes kept for a backward pass that never comes, or wasn't recorded."""
    trained: bool
    """Whether other passes have a backward pass."""


def _remedies(
    judged: FreeParts, asked: _Failed, others: _Elsewhere, *, limited: bool
) -> tuple[Remedy, ...]:
    """Return the remedies that would have freed memory, in the order in which to try them."""
    bytes_of = {name: of for name, (of, _) in judged.items()}
    found: list[tuple[RemedyName, int]] = []
    if asked.free >= asked.needed:
        found.append(("process_limit", asked.free))
    # Before a request fails, the allocator empties its cache itself, except during graph capture.
    found.append(("empty_cache", others.returnable))
    if not asked.expandable:
        found.append(("expandable_segments", bytes_of["too_small"]))
    found.append(("max_split_size", bytes_of["split_limit" if limited else "split_open"]))
    waiting = bytes_of["fits"] + bytes_of["pending"] + bytes_of["pending_elsewhere"]
    found.append(("pending_frees", waiting))
    found.append(("one_stream", bytes_of["other_stream"]))
    found.append(("private_pools", others.private))
    found.append(("other_processes", asked.others))
    remedies = []
    for name, of in found:
        if of:
            there = of + (0 if name == "process_limit" else asked.free)
            # Memory that is returned to the driver has to be allocated again, as a whole segment.
            wanted = asked.needed if name == "empty_cache" else asked.request
            remedies.append(Remedy(name, of, there >= wanted))
    if others.unneeded:
        # If nothing was trained yet, the backward pass may have been about to start.
        name = "no_grad" if others.trained else "inference_mode"
        remedies.append(Remedy(name, others.unneeded, others.unneeded >= asked.missing))
    largest = others.largest_group
    remedies.append(Remedy("less_live", largest, largest >= asked.missing))
    return tuple(remedies)
