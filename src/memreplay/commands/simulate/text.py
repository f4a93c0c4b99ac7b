"""Writes what a simulation found beside what was recorded, for people."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.simulating.records import Candidate, Changed
from memreplay.commands.simulate.result import DeviceSimulation, SimulateReport
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.holders import coded_row
from memreplay.render.reasons import reason_notes
from memreplay.render.simulations import failed_words, settings_words
from memreplay.render.units import (
    count,
    counted,
    signed_count,
    signed_size,
    size,
)

NOT_EXACT = "~"  # before a number that is an estimate


def simulate_document(report: SimulateReport, *, top: int = 20) -> Document:
    """A section a device: what was recorded and what was simulated, side by side; of a search the
    best `top` settings (0: all)."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to simulate: the file has neither events nor segments"))
    for device in report.devices:
        blocks += _section(device, top)
    return tuple(blocks)


def _section(device: DeviceSimulation, top: int) -> list[Block]:
    blocks: list[Block] = [
        Heading(_headline(device)),
        Pairs(_pairs(device)),
        _beside(device),
    ]
    if device.failed is not None:
        blocks.append(_failed(device))
    if device.stopped_event is not None:
        blocks.append(Note("the simulation ends there: nobody knows what the program does next"))
    if device.candidates is not UNSET:
        blocks += _tried(device.candidates, top)
    return [*blocks, *reason_notes(device.reasons, trusted=device.trusted)]


def _headline(device: DeviceSimulation) -> tuple[str, ...]:
    before, after = device.recorded.reserved_peak_bytes, device.simulated.reserved_peak_bytes
    name = f"device {device.device}"
    if device.stopped_event is not None:
        at = f"at event {count(device.stopped_event)} of {count(device.events)}"
        return (f"{name}: out of memory {at}",)
    best = "at best " if device.candidates is not UNSET else ""
    if before == after:
        return (f"{name}: {best}reserves {size(after)} at the peak", "as much as recorded")
    less = "less" if after < before else "more"
    words = f"{size(abs(after - before))} {less} than recorded"
    return (f"{name}: {best}reserves {size(after)} at the peak", words)


def _pairs(device: DeviceSimulation) -> tuple[tuple[str, str], ...]:
    changed = () if device.changed is None else (("changed", _changed(device.changed)),)
    return (
        *changed,
        ("recorded", _setting(device.recorded_settings, device.recorded_total_bytes)),
        ("simulated", f"{_setting(device.settings, device.total_bytes)}, {device.exactness}"),
    )


def _changed(changed: Changed) -> str:
    chosen = f"{counted(changed.allocations, 'allocation')} of {size(changed.bytes)} in all"
    if changed.twice:
        return f"{chosen}, made twice"
    if changed.factor == 0:
        chosen = f"{chosen}, left out"
        if changed.carried_blocks:
            chosen += f", and {counted(changed.carried_blocks, 'block')} from before"
        return chosen
    return f"{chosen}, at {changed.factor:g} times their size"


def _setting(settings: str, total: int | None) -> str:
    card = "" if total is None else f" on {size(total)}"
    return settings_words(settings) + card


def _beside(device: DeviceSimulation) -> Table:
    old, new = device.recorded, device.simulated

    def sizes(name: str, before: int, after: int) -> Row:
        return Row((name, size(before), size(after), signed_size(after - before)))

    def counts(name: str, before: int, after: int) -> Row:
        return Row((name, count(before), count(after), signed_count(after - before)))

    rows = [
        *(
            [sizes("requested at the peak", old.requested_peak_bytes, new.requested_peak_bytes)]
            if device.changed is not None
            else []
        ),
        sizes("reserved at the peak", old.reserved_peak_bytes, new.reserved_peak_bytes),
        sizes("of it not in use", old.unused_bytes, new.unused_bytes),
        sizes("active at the peak", old.active_peak_bytes, new.active_peak_bytes),
        counts("segments at the end", old.segments, new.segments),
        counts("driver allocs", old.driver_allocs, new.driver_allocs),
        counts("driver frees", old.driver_frees, new.driver_frees),
        counts("retries", old.alloc_retries, new.alloc_retries),
        counts("failed requests", old.ooms, new.ooms),
    ]
    titles = ("", "recorded", "simulated", "change")
    return Table(titles, ("left", "right", "right", "right"), tuple(rows))


def _failed(device: DeviceSimulation) -> Table:
    assert device.failed is not None
    row = coded_row((), device.failed.asked_by, "stack", all_frames=False)
    title = f"out of memory: {failed_words(device.failed)}, asked by"
    return Table((title,), ("left",), (Row(row.cells, row.below),))


def _tried(tried: tuple[Candidate, ...], top: int) -> list[Block]:
    shown = tried[:top] if top else tried
    rows = [_row(one) for one in shown]
    recorded = next((one for one in tried if one.is_recorded), None)
    if recorded is not None and recorded not in shown:
        rows.append(_row(recorded))
    titles = ("reserved", "not in use", "allocs", "frees", "retries", "settings")
    aligns = (*("right",) * 5, "left")
    blocks: list[Block] = [Table(titles, aligns, tuple(rows), spare=(3, 1))]  # type: ignore[arg-type]
    if left := len(tried) - len(shown):
        blocks.append(Note(f"{counted(left, 'more setting')} tried (--top 0 shows all)"))
    return blocks


def _row(one: Candidate) -> Row:
    found = one.simulated
    about = "" if one.exactness == "exact" else NOT_EXACT
    words = settings_words(one.settings)
    if one.is_recorded:
        words += " (as recorded)"
    if one.stopped_event is not None:
        words += f": out of memory at event {count(one.stopped_event)}"
    return Row(
        (
            about + size(found.reserved_peak_bytes),
            size(found.unused_bytes),
            count(found.driver_allocs),
            count(found.driver_frees),
            count(found.alloc_retries),
            words,
        ),
        style="strong" if one.is_recorded else "plain",
    )
