"""Writes which cards a program fits on, for people."""

from __future__ import annotations

from memreplay.commands.fits.result import DeviceFits, Fit, FitsReport
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.holders import coded_row
from memreplay.render.reasons import reason_notes
from memreplay.render.simulations import failed_words, settings_words
from memreplay.render.units import count, counted, size


def fits_document(report: FitsReport) -> Document:
    """A section a device: what it needs at least, and a row for each card that was asked about."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to simulate: the file has neither events nor segments"))
    for device in report.devices:
        blocks += _section(device)
    return tuple(blocks)


def _section(device: DeviceFits) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(device)), Pairs(_pairs(device))]
    if device.cards:
        rows = tuple(_row(card) for card in device.cards)
        titles = ("card", "fits", "reserved", "retries", "settings that would do")
        aligns = ("right", "left", "right", "right", "left")
        blocks.append(Table(titles, aligns, rows, spare=(3, 2)))  # type: ignore[arg-type]
    for card in device.cards:
        if card.failed is not None:
            row = coded_row((), card.failed.asked_by, "stack", all_frames=False)
            title = f"out of memory on {size(card.total_bytes)}: {failed_words(card.failed)}"
            blocks.append(Table((f"{title}, asked by",), ("left",), (Row(row.cells, row.below),)))
    if device.cards:
        blocks.append(
            Note("a CUDA context takes some hundred MiB of a card besides, other processes theirs")
        )
    return [*blocks, *reason_notes(device.reasons, trusted=device.trusted)]


def _headline(device: DeviceFits) -> tuple[str, ...]:
    settings = settings_words(device.settings)
    need = f"device {device.device}: needs {size(device.need.total_bytes)} with {settings}"
    return (need, device.exactness)


def _pairs(device: DeviceFits) -> tuple[tuple[str, str], ...]:
    least = "the same, with any of some 30 settings"
    if device.least.total_bytes < device.need.total_bytes:
        least = f"{size(device.least.total_bytes)} with {settings_words(device.least.settings)}"
    return (("recorded", settings_words(device.recorded_settings)), ("at least", least))


def _row(card: Fit) -> Row:
    fits, others = "yes", ""
    if card.failed is not None:
        fits, others = f"no, up to event {count(card.failed.event_index)}", "none of some 30"
    if card.others:
        others = settings_words(card.others[0])
        if len(card.others) > 1:
            others += f", or {counted(len(card.others) - 1, 'other')}"
    return Row(
        (
            size(card.total_bytes),
            fits,
            size(card.simulated.reserved_peak_bytes),
            count(card.simulated.alloc_retries),
            others,
        )
    )
