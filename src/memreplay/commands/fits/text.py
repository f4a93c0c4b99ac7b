"""Writes which cards a program fits on, for people."""

from __future__ import annotations

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.commands.fits.result import DeviceFits, Fit, FitsReport
from memreplay.render.document import (
    Align,
    Below,
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.render.holders import coded_row
from memreplay.render.reasons import notes_of
from memreplay.render.simulations import (
    NOT_EXACT,
    SETTINGS_WIDTH,
    failed_words,
    settings_lines,
    settings_words,
)
from memreplay.render.trust import label_of
from memreplay.render.units import count, counted, size, sizes

Words = dict[int, str]  # how sizes are written, so that those that differ look different

BESIDES = "CUDA itself takes some hundred MiB of a card besides, and other processes theirs"


def fits_document(report: FitsReport) -> Document:
    """A section a device: what it needs at least, and a row for each card that was asked about."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to simulate: the file has neither events nor segments"))
    for device in report.devices:
        # What is so for all of them is said once.
        last = device is report.devices[-1]
        blocks += _section(device, _besides(device) if last else "")
    return tuple(blocks)


def _besides(device: DeviceFits) -> str:
    """What is not the program's."""
    taken = {one.context_bytes for one in device.cards if one.context_bytes}
    if not taken:
        return BESIDES
    listed = f"{size(max(taken))} of each card"
    if len(taken) > 1:
        listed = f"{size(min(taken))} to {size(max(taken))} of these cards"
    return f"CUDA itself takes {listed}, which is subtracted (an estimate)"


def _section(device: DeviceFits, note: str) -> list[Block]:
    sized = [device.need.total_bytes, device.least.total_bytes]
    sized += [card.total_bytes for card in device.cards]
    words = dict(zip(sized, sizes(*sized), strict=True))
    blocks: list[Block] = [Heading(_headline(device, words)), Pairs(_pairs(device, words))]
    if device.cards:
        blocks.append(_cards(device.cards, words))
    blocks += _failures(device.cards, words)
    if any(card.exactness != "exact" for card in device.cards):
        blocks.append(Note(f"{NOT_EXACT} before what is an estimate"))
    if note:
        blocks.append(Note(note))
    return [*blocks, *notes_of(device)]


def _headline(device: DeviceFits, words: Words) -> tuple[str, ...]:
    said = f"device {device.device}: needs {words[device.need.total_bytes]}"
    if not device.events:
        said = f"device {device.device}: no events, and needs what was there at the start"
    cards = device.cards
    fitting = sum(card.fits for card in cards)
    if len(cards) == 1:
        on = f"{'fits' if fitting else 'does not fit'} on {words[cards[0].total_bytes]}"
    elif fitting == len(cards):
        on = f"fits on all {len(cards)} cards"
    else:
        on = f"fits on {fitting or 'none'} of {len(cards)} cards"
    trust = label_of(device.need.exactness, device.reasons, device.events)
    return (said, *((on,) if cards else ()), trust)


def _pairs(device: DeviceFits, words: Words) -> tuple[tuple[str, str], ...]:
    need, least = device.need.total_bytes, device.least.total_bytes
    unknown = device.recorded_settings is None and not device.settings
    pairs = [("settings", settings_words(None if unknown else device.settings))]
    if device.settings != (device.recorded_settings or ""):
        pairs.append(("recorded", settings_words(device.recorded_settings)))
    at_best = "no less with any of some 30 other settings"
    if least < need:
        about = "" if device.least.exactness == "exact" else NOT_EXACT
        with_ = settings_words(device.least.settings)
        at_best = f"{about}{words[least]}, {size(need - least)} less, with {with_}"
    return (*pairs, ("at best", at_best))


def _cards(cards: tuple[Fit, ...], words: Words) -> Table:
    titles: tuple[str, ...] = ("card", "fits", "reserved", "retries")
    rows = [_row(card, words) for card in cards]
    if all(card.fits for card in cards):
        return Table(titles, ("right", "left", "right", "right"), tuple(rows))
    titles = (*titles, "settings that would do")
    rows = [
        Row((*row.cells, others), below)
        for row, (others, below) in zip(rows, map(_others, cards), strict=True)
    ]
    aligns: tuple[Align, ...] = ("right", "left", "right", "right", "left")
    return Table(titles, aligns, tuple(rows), spare=(3, 2), least=SETTINGS_WIDTH)


def _row(card: Fit, words: Words) -> Row:
    """What it costs where it fits; where it does not, which event ends it."""
    total, outcome = words[card.total_bytes], card.simulated
    about = "" if card.exactness == "exact" else NOT_EXACT
    if card.fits:
        reserved = size(outcome.reserved_peak_bytes)
        return Row((total, f"{about}yes", reserved, count(outcome.alloc_retries)))
    if card.failed is None:
        return Row((total, f"{about}no, more at the start", "", ""))
    return Row((total, f"{about}no, event {count(card.failed.event_index)} fails", "", ""))


def _others(card: Fit) -> tuple[str, Below]:
    if card.fits:
        return "", ()
    if not card.others:
        return "none of some 30", ()
    words, below = settings_lines(card.others[0])
    if more := len(card.others) - 1:
        below = (*below, (Place(f"or {counted(more, 'other')}"), "plain"))
    return words, below


def _failures(cards: tuple[Fit, ...], words: Words) -> list[Block]:
    """Which request fails, and on which cards the same one."""
    found: dict[FailedRequest, list[str]] = {}
    for card in cards:
        if card.failed is not None:
            found.setdefault(card.failed, []).append(words[card.total_bytes])
    blocks: list[Block] = []
    for failed, on in found.items():
        row = coded_row((), failed.asked_by, "stack", all_frames=False)
        title = f"out of memory on {', '.join(on)}: {failed_words(failed)}, asked by"
        blocks.append(Table((title,), ("left",), (Row(row.cells, row.below),)))
    return blocks
