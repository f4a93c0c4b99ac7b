"""Combine what the driver and the recordings say about each card."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memreplay.errors import NothingToTellError
from memreplay.live.cards import Card, Driver
from memreplay.live.recordings import recordings
from memreplay.live.result import (
    CardPart,
    LiveCard,
    LiveProcess,
    LiveRecording,
    LiveReport,
    PartKind,
    RecordedDevice,
)
from memreplay.recording.processes import Process


class Own(NamedTuple):
    """A recorded process on a card."""

    recording: LiveRecording
    device: RecordedDevice


def live_report(driver: Driver) -> LiveReport:
    """Return who uses the cards now, and the recordings that run."""
    found = recordings()
    return combined(driver.cards(), driver.missing, found)


def combined(cards: Sequence[Card], missing: str, found: tuple[LiveRecording, ...]) -> LiveReport:
    """Return the report for the driver's cards and these recordings."""
    owns: dict[int, list[Own]] = {card.number: [] for card in cards}
    others: dict[object, list[Own]] = {}
    seen: set[tuple[int, int]] = set()
    for recording in found:
        for device in recording.devices:
            own = Own(recording, device)
            if (recording.pid, device.device) in seen:  # a process may have two recordings
                continue
            seen.add((recording.pid, device.device))
            card = None if recording.is_dryrun else card_of(own, cards)
            if card is not None:
                owns[card.number].append(own)
            else:
                others.setdefault(key_of(own), []).append(own)
    known = [
        LiveCard(
            index=card.number,
            name=card.name,
            uuid=card.uuid,
            is_dryrun=False,
            total_bytes=card.total,
            free_bytes=card.free,
            parts=parts(card.total, card.free, card.processes, owns[card.number]),
            recorded_pids=pids(owns[card.number]),
            processes_missing=card.missing,
        )
        for card in cards
    ]
    return LiveReport(
        time_us=time.time_ns() // 1000,
        cards=(*known, *map(unlisted_card, others.values())),
        cards_missing=missing,
        recordings=found,
    )


def checked(report: LiveReport) -> LiveReport:
    """Return the report. Raises NothingToTellError if it has neither cards nor recordings."""
    if report.cards or report.recordings:
        return report
    why = report.cards_missing or "the driver lists no cards"
    raise NothingToTellError(f"{why}; and no recording of memreplay is running here")


def pids(owns: Sequence[Own]) -> tuple[int, ...]:
    return tuple(own.recording.pid for own in owns)


def plain(uuid: str) -> str:
    """Return a card's id without the prefix that only some programs print."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def card_of(own: Own, cards: Sequence[Card]) -> Card | None:
    """Return the driver's card that a recorded process uses; None if it isn't certain."""
    if own.device.uuid:
        uuid = plain(own.device.uuid)
        return next((card for card in cards if plain(card.uuid) == uuid), None)
    pid = own.recording.pid
    listing = [card for card in cards if any(one.pid == pid for one in card.processes)]
    return listing[0] if len(listing) == 1 else None


def key_of(own: Own) -> object:
    """Return what distinguishes the cards that only recordings know. Dry runs share nothing."""
    recording, device = own
    if recording.is_dryrun or not device.uuid:
        return recording.pid, device.device
    return plain(device.uuid)


def unlisted_card(owns: list[Own]) -> LiveCard:
    """Return a card that only recordings know."""
    recording, device = owns[-1]
    return LiveCard(
        index=None,
        name=device.name,
        uuid=device.uuid,
        is_dryrun=recording.is_dryrun,
        total_bytes=device.total_bytes,
        free_bytes=min(device.free_bytes, device.total_bytes),
        parts=parts(device.total_bytes, device.free_bytes, device.processes, owns),
        recorded_pids=pids(owns),
        processes_missing=device.processes_missing,
    )


def parts(
    total: int, free: int, processes: Iterable[Process | LiveProcess], owns: Sequence[Own]
) -> tuple[CardPart, ...]:
    """Divide a card's memory. The parts add up to `total`, even if something changed between two
    measurements.
    """
    found: list[CardPart] = []
    left = total - min(free, total)

    def take(kind: PartKind, n_bytes: int, pid: int | None = None, name: str = "") -> None:
        nonlocal left
        n_bytes = max(0, min(n_bytes, left))
        left -= n_bytes
        if n_bytes:
            found.append(CardPart(kind, n_bytes, pid, name))

    listed = {one.pid: one for one in processes}
    for recording, device in owns:
        pid, name, reserved = recording.pid, recording.name, device.reserved_bytes
        take("allocated", min(device.allocated_bytes, reserved), pid, name)
        take("unused", reserved - device.allocated_bytes, pid, name)
        driver = listed.get(pid)
        if driver is not None and driver.bytes is not None:
            take("outside", driver.bytes - reserved, pid, name)
    recorded = {own.recording.pid for own in owns}
    for one in sorted(listed.values(), key=lambda one: (-(one.bytes or 0), one.pid)):
        if one.pid not in recorded:
            take("process", one.bytes or 0, one.pid, one.name)
    take("rest", left)
    take_free = CardPart("free", total - sum(one.bytes for one in found), None, "")
    return (*found, take_free)
