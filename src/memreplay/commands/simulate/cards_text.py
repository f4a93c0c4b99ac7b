"""Format which cards a program fits on."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.simulating.records import FailedRequest, Fit
from memreplay.commands.simulate.result import DeviceSimulation
from memreplay.render.document import Align, Below, Block, Note, Place, Row, Table
from memreplay.render.holders import coded_row
from memreplay.render.simulations import (
    NOT_EXACT,
    SETTINGS_WIDTH,
    failed_text,
    settings_lines,
    settings_text,
)
from memreplay.render.units import count, counted, size, sizes

Words = dict[int, str]  # sizes as text; different sizes never have the same text

BESIDES = "leave a few hundred MiB for the CUDA context and other processes"


def size_texts(device: DeviceSimulation) -> Words:
    """Format the sizes of a device's cards and needs."""
    sized = [one.program_memory_bytes for one in (device.need, device.least) if one is not UNSET]
    sized += [card.total_memory_bytes for card in device.cards or ()]
    return dict(zip(sized, sizes(*sized), strict=True))


def fitting_text(device: DeviceSimulation) -> tuple[str, ...]:
    """Return text such as `fits on 2 of 4 cards`, or "" without cards."""
    cards = device.cards or ()
    fitting = sum(card.fits for card in cards)
    if not cards:
        return ()
    if len(cards) == 1:
        on = size(cards[0].total_memory_bytes)
        return (f"{'fits' if fitting else 'does not fit'} on {on}",)
    if fitting == len(cards):
        return (f"fits on all {len(cards)} cards",)
    return (f"fits on {fitting or 'none'} of {len(cards)} cards",)


def need_pairs(device: DeviceSimulation) -> tuple[tuple[str, str], ...]:
    """Return the memory that the program needs with these settings, and with the best ones."""
    if device.need is UNSET or device.least is UNSET:
        return ()
    words = size_texts(device)
    need, least = device.need.program_memory_bytes, device.least.program_memory_bytes
    about = "" if device.need.exactness == "exact" else NOT_EXACT
    needs = f"{about}{words[need]} for the program, with these settings"
    at_best = "no less with any of about 30 other settings"
    if least < need:
        about = "" if device.least.exactness == "exact" else NOT_EXACT
        with_ = settings_text(device.least.settings)
        at_best = f"{about}{words[least]}, {size(need - least)} less, with {with_}"
    return (("needs", needs), ("at best", at_best))


def cards_blocks(device: DeviceSimulation) -> list[Block]:
    """Build a table with a row per card: whether the program fits, and the cost, or settings that
    would make the program fit. Then list the failing requests.

    For a single card, the simulation's section already shows most of this.
    """
    cards = device.cards or ()
    if not cards or (len(cards) == 1 and cards[0].fits):
        return []
    words = size_texts(device)
    blocks: list[Block] = [_cards(cards, words)]
    if len(cards) > 1:
        blocks += _failures(cards, words)
    if any(card.exactness != "exact" for card in cards):
        blocks.append(Note(f"{NOT_EXACT} marks estimates"))
    return blocks


def besides(device: DeviceSimulation) -> str:
    """Describe the memory on the card that isn't the program's; "" if the section of a single card
    already does.
    """
    if device.cards is UNSET or len(device.cards) == 1:
        return ""
    cards = device.cards
    taken = {one.context_bytes for one in cards if one.context_bytes}
    if not taken:
        return BESIDES
    listed = f"{size(max(taken))} of each card"
    if len(taken) > 1:
        listed = f"{size(min(taken))} to {size(max(taken))} of these cards"
    return f"CUDA itself takes {listed}, which is subtracted (an estimate)"


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
    """Return a card's row: the cost if the program fits, otherwise the event that ends it."""
    total, outcome = words[card.total_memory_bytes], card.simulated
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
        return "none of about 30", ()
    words, below = settings_lines(card.others[0])
    if more := len(card.others) - 1:
        below = (*below, (Place(f"or {counted(more, 'other')}"), "plain"))
    return words, below


def _failures(cards: tuple[Fit, ...], words: Words) -> list[Block]:
    """Return the failing requests, each with its cards."""
    found: dict[FailedRequest, list[str]] = {}
    for card in cards:
        if card.failed is not None:
            found.setdefault(card.failed, []).append(words[card.total_memory_bytes])
    blocks: list[Block] = []
    for failed, on in found.items():
        row = coded_row((), failed.asked_by, "stack", all_frames=False)
        title = f"out of memory on {', '.join(on)}: {failed_text(failed)}, requested at"
        blocks.append(Table((title,), ("left",), (Row(row.cells, row.below),)))
    return blocks
