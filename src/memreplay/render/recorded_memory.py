"""Format who used the cards' memory, and the process's host memory."""

from __future__ import annotations

from memreplay.render.document import Block, Heading, Note, Row, Table
from memreplay.render.fit import cut_right
from memreplay.render.units import count, duration, percent, size
from memreplay.snapshot.recorded_memory import CardProcess, CardSamples, CardUse, HostUse
from memreplay.texts import clean_short

SHOWN = 5  # number of other processes that have a row of their own
NAME = 80  # maximum length of a name, in characters
CLOSE = 32 << 20  # a peak this close to the present isn't mentioned
OWN = "this process, outside PyTorch's allocator: context, kernels, libraries"
OWN_AND_OTHERS = "outside PyTorch's allocator: context, kernels, libraries, other processes"


def card_blocks(uses: tuple[CardUse, ...]) -> list[Block]:
    """Return a table for each card with who used its memory; nothing if it wasn't recorded."""
    return [block for use in uses for block in _card(use)]


def _card(use: CardUse) -> list[Block]:
    when = "when the request failed" if use.at_oom else "when this was written"
    where = "this part of the card (MIG)" if use.is_part else "the card"
    used = size(use.total_bytes - use.free_bytes)
    words = f"device {use.device}: {used} of {size(use.total_bytes)} in use on {where} {when}"
    parts = [(use.reserved_bytes, "PyTorch's allocator in this process (reserved)")]
    if use.other_bytes:
        parts += _others(use, use.other_bytes)
    own = OWN_AND_OTHERS if use.other_bytes is None else OWN
    parts.append((use.outside_bytes, own))
    rows = [
        Row((size(n), percent(n / use.total_bytes), words))
        for n, words in (*sorted(parts, key=lambda one: -one[0]), (use.free_bytes, "free"))
    ]
    table = Table(("bytes", "share", "held by"), ("right", "right", "left"), tuple(rows))
    return [Heading((words,)), table, *map(Note, card_notes(use))]


def _others(use: CardUse, whole: int) -> list[tuple[int, str]]:
    """Return a row for each of the largest processes, and one for the rest. They add up to
    `whole`, because the list of processes may be newer.
    """
    parts: list[tuple[int, str]] = []
    left = whole
    others = [one for one in use.processes if not one.is_recorded and one.bytes]
    for one in others[:SHOWN]:
        n = min(one.bytes or 0, left)
        parts.append((n, f"another process: {named(one)}"))
        left -= n
    if left:
        rest = len(others) - SHOWN
        parts.append((left, processes(rest) if rest > 0 else "other processes"))
    return parts


def processes(number: int) -> str:
    return "1 other process" if number == 1 else f"{count(number)} other processes"


def named(one: CardProcess) -> str:
    """Return a process's id and name."""
    return f"pid {one.pid} {clean_short(one.name, NAME)}".rstrip()


def card_notes(use: CardUse) -> list[str]:
    """Return what else to know about a card's memory."""
    notes = []
    if use.outside_peak_bytes > use.outside_bytes + CLOSE:
        notes.append(
            f"up to {size(use.outside_peak_bytes)} was outside PyTorch's allocator during the"
            " recording"
        )
    if use.processes_missing:
        why = clean_short(use.processes_missing, 4 * NAME)
        notes.append(f"other processes aren't listed: {why}")
    elif use.other_bytes is None:
        told = ", ".join(
            named(one) + ("" if one.bytes is None else f" ({size(one.bytes)})")
            for one in use.processes[:SHOWN]
        )
        notes.append(
            "other processes can't be told apart, because the driver doesn't list this one (it may"
            f" run in a container); it lists {told or 'none'}"
        )
    return notes


def card_line(use: CardUse) -> str:
    """Return who uses a card, in one line."""
    parts = [f"{size(use.reserved_bytes)} by PyTorch's allocator"]
    if use.other_bytes:
        others = sum(not one.is_recorded for one in use.processes)
        parts.append(f"{size(use.other_bytes)} by {processes(others)}")
    rest = "context, libraries and other processes"
    rest = rest if use.other_bytes is None else "context and libraries"
    parts.append(f"{size(use.outside_bytes)} by the CUDA {rest}")
    used = f"{size(use.total_bytes - use.free_bytes)} of {size(use.total_bytes)}"
    return f"{used} in use at the end: {', '.join(parts)}"


def sample_line(samples: CardSamples, time_us: int, width: int) -> str:
    """Return who used the card at the sample closest to a moment and, if it fits, how far that is,
    in one line.
    """
    at = samples.closest(time_us)
    outside, other = f"{size(samples.outside(at))} outside PyTorch", samples.other_bytes[at]
    parts = [f"{outside}, including other processes"]
    if other is not None:
        parts = [outside, f"{size(other)} in other processes"]
    parts.append(f"{size(samples.free_bytes[at])} free")
    away = samples.times_us[at] - time_us
    line = f"card: {', '.join(parts)}"
    whole = f"{line} ({duration(abs(away))} {'earlier' if away < 0 else 'later'})"
    return whole if away and len(whole) <= width else cut_right(line, width)


def host_line(use: HostUse | None) -> str:
    """Return the process's host memory in one line; "" if it wasn't recorded."""
    if use is None:
        return ""
    parts = []
    if use.resident_bytes is not None:
        used = f"{size(use.resident_bytes)} of RAM"
        parts.append(
            f"this process uses {used}{_at_most(use.resident_peak_bytes, use.resident_bytes)}"
        )
    elif use.resident_peak_bytes is not None:
        parts.append(f"this process used at most {size(use.resident_peak_bytes)} of RAM")
    if use.shared_peak_bytes:
        shared = use.shared_bytes or 0
        of_it = f"{size(shared)} of it shared with other processes"
        parts.append(f"{of_it}{_at_most(use.shared_peak_bytes, shared)}")
    words = [", ".join(parts)] if parts else []
    if use.pinned_bytes or use.pinned_peak_bytes:
        held = use.pinned_bytes or 0
        pinned = f"{size(held)} pinned for copies to the GPU{_at_most(use.pinned_peak_bytes, held)}"
        if use.pinned_active_bytes is not None:
            pinned += f", {size(use.pinned_active_bytes)} of it in use"
        words.append(pinned)
    if use.pinned_events:
        words.append(f"{count(use.pinned_events)} events of pinned memory (export --host)")
    return "; ".join(words)


def _at_most(peak: int | None, now: int) -> str:
    return "" if peak is None or peak <= now else f" (at most {size(peak)})"
