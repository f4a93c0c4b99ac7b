"""Writes which cards a program fits on, for people."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.commands.simulate.result import DeviceSimulation, Fit
from memreplay.render.document import Align, Below, Block, Note, Place, Row, Table
from memreplay.render.holders import coded_row
from memreplay.render.simulations import (
    NOT_EXACT,
    SETTINGS_WIDTH,
    failed_words,
    settings_lines,
    settings_words,
)
from memreplay.render.units import count, counted, size, sizes

Words = dict[int, str]  # how sizes are written, so that those that differ look different

BESIDES = "leave a few hundred MiB for the CUDA context and other processes"


def cards_words(device: DeviceSimulation) -> Words:
    """How the sizes of a device's cards, and of what it needs, are written."""
    sized = [one.total_bytes for one in (device.need, device.least) if one is not UNSET]
    sized += [card.total_bytes for card in device.cards or ()]
    return dict(zip(sized, sizes(*sized), strict=True))


def fitting_words(device: DeviceSimulation) -> tuple[str, ...]:
    """`fits on 2 of 4 cards`; nothing if no card was asked about."""
    cards = device.cards or ()
    fitting = sum(card.fits for card in cards)
    if not cards:
        return ()
    if len(cards) == 1:
        on = size(cards[0].total_bytes)
        return (f"{'fits' if fitting else 'does not fit'} on {on}",)
    if fitting == len(cards):
        return (f"fits on all {len(cards)} cards",)
    return (f"fits on {fitting or 'none'} of {len(cards)} cards",)


def need_pairs(device: DeviceSimulation) -> tuple[tuple[str, str], ...]:
    """How much memory the program needs, and how much with the best settings."""
    if device.need is UNSET or device.least is UNSET:
        return ()
    words = cards_words(device)
    need, least = device.need.total_bytes, device.least.total_bytes
    about = "" if device.need.exactness == "exact" else NOT_EXACT
    needs = f"{about}{words[need]} for the program, with these settings"
    at_best = "no less with any of some 30 other settings"
    if least < need:
        about = "" if device.least.exactness == "exact" else NOT_EXACT
        with_ = settings_words(device.least.settings)
        at_best = f"{about}{words[least]}, {size(need - least)} less, with {with_}"
    return (("needs", needs), ("at best", at_best))


def cards_blocks(device: DeviceSimulation) -> list[Block]:
    """A row a card: whether it fits, at what cost, or which settings would do; then who asked for
    what fails there. Of a single card the simulation itself says most of that."""
    cards = device.cards or ()
    if not cards or (len(cards) == 1 and cards[0].fits):
        return []
    words = cards_words(device)
    blocks: list[Block] = [_cards(cards, words)]
    if len(cards) > 1:
        blocks += _failures(cards, words)
    if any(card.exactness != "exact" for card in cards):
        blocks.append(Note(f"{NOT_EXACT} before what is an estimate"))
    return blocks


def besides(device: DeviceSimulation) -> str:
    """What is not the program's; empty if a simulation of one card says it."""
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
