"""Writes what a simulation found beside what was recorded, for people."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.simulating.records import Candidate, Changed, FailedRequest
from memreplay.commands.simulate.cards_text import besides, cards_blocks, fitting_words, need_pairs
from memreplay.commands.simulate.result import DeviceSimulation, SimulateReport
from memreplay.render.document import (
    Align,
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
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    signed_count,
    signed_size,
    size,
)


def simulate_document(report: SimulateReport, *, top: int = 20) -> Document:
    """A section a device: what was recorded and what was simulated, side by side; of a search the
    best `top` settings (0: all)."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to simulate: the file has neither events nor segments"))
    for device in report.devices:
        blocks += _section(device, top, last=device is report.devices[-1])
    return tuple(blocks)


def _section(device: DeviceSimulation, top: int, *, last: bool) -> list[Block]:
    first, *others = (*fitting_words(device), *_headline(device))
    blocks: list[Block] = [Heading((f"device {device.device}: {first}", *others))]
    if not device.events:
        needs = need_pairs(device)
        return [*blocks, *([Pairs(needs)] if needs else []), *notes_of(device)]
    blocks += [Pairs(_pairs(device)), _beside(device)]
    if device.failed is not None:
        blocks.append(_failed(device.failed))
    if device.stopped_event is not None:
        blocks.append(Note("the simulation ends there: nobody knows what the program does next"))
    if device.candidates is not UNSET:
        blocks += _tried(device.candidates, top)
    blocks += cards_blocks(device)
    # What is so for all of them is said once.
    if last and (words := besides(device)):
        blocks.append(Note(words))
    return [*blocks, *notes_of(device)]


def _headline(device: DeviceSimulation) -> tuple[str, ...]:
    before, after = device.recorded.reserved_peak_bytes, device.simulated.reserved_peak_bytes
    if not device.events:
        return ("no events, so there is nothing to simulate",)
    best = "at best " if device.candidates is not UNSET else ""
    if device.stopped_event is not None:
        events = count(device.first_event + device.events)
        at = f"out of memory at event {count(device.stopped_event)} of {events}"
        return (f"{best}{at}", "where the recording goes on")
    phrases = [f"{best}reserves {size(after)} at the peak"]
    if before == after:
        phrases.append("as much as recorded")
    else:
        less = "less" if after < before else "more"
        phrases.append(f"{size(abs(after - before))} {less} than recorded")
    if device.recorded.ooms or device.simulated.ooms:
        phrases = [_failing(device.recorded.ooms, device.simulated.ooms), *phrases]
    return tuple(phrases)


def _failing(before: int, after: int) -> str:
    """`2 requests fail as recorded`, `no request fails (recorded: 2)`."""
    fails = f"{counted(after, 'request')} {'fails' if after == 1 else 'fail'}"
    if before == after:
        return f"{fails} as recorded"
    return f"{fails if after else 'no request fails'} (recorded: {count(before)})"


def _pairs(device: DeviceSimulation) -> tuple[tuple[str, str], ...]:
    changed = () if device.changed is None else (("changed", _changed(device.changed)),)
    return (
        *changed,
        ("recorded", _setting(device.recorded_settings, device.recorded_total_bytes)),
        ("simulated", _setting(device.settings, device.total_bytes) + _context(device)),
        *need_pairs(device),
        ("result", trust_label(device)),
    )


def _context(device: DeviceSimulation) -> str:
    if not device.context_bytes:
        return ""
    return f", after {size(device.context_bytes)} of the card for CUDA itself (an estimate)"


def _changed(changed: Changed) -> str:
    chosen = f"{counted(changed.allocations, 'allocation')} of {size(changed.bytes)} in all"
    before = counted(changed.carried_over_blocks, "block") if changed.carried_over_blocks else ""
    if changed.factor == 0:
        return f"{chosen}, left out" + (f", and {before} from before" if before else "")
    how = "made twice" if changed.twice else f"at {changed.factor:g} times their size"
    return f"{chosen}, {how}" + (f"; {before} from before as they were" if before else "")


def _setting(settings: str | None, total: int | None) -> str:
    card = "" if total is None else f", with {size(total)} for the program"
    return settings_words(settings) + card


def _beside(device: DeviceSimulation) -> Table:
    """Both in columns, with the change."""
    old, new = device.recorded, device.simulated

    def row(name: str, before: int, after: int, *, sizes: bool = False) -> Row:
        say, change = (size, signed_size) if sizes else (count, signed_count)
        if device.stopped_event is not None:
            return Row((name, say(before), say(after)))
        return Row(
            (name, say(before), say(after), change(after - before) if after != before else "same")
        )

    requested: tuple[Row, ...] = ()
    if device.changed is not None:
        name = "requested at the peak"
        requested = (row(name, old.requested_peak_bytes, new.requested_peak_bytes, sizes=True),)
    rows = (
        *requested,
        row("reserved at the peak", old.reserved_peak_bytes, new.reserved_peak_bytes, sizes=True),
        row("of it unused", old.unused_bytes, new.unused_bytes, sizes=True),
        row("most in use", old.active_peak_bytes, new.active_peak_bytes, sizes=True),
        row("segments at the end", old.segments, new.segments),
        row("driver allocs", old.driver_allocs, new.driver_allocs),
        row("driver frees", old.driver_frees, new.driver_frees),
        row("retries", old.alloc_retries, new.alloc_retries),
        row("failed requests", old.ooms, new.ooms),
    )
    # What ends early cannot be compared with the whole.
    if device.stopped_event is not None:
        return Table(("", "recorded", "up to there"), ("left", "right", "right"), rows)
    titles = ("", "recorded", "simulated", "change")
    return Table(titles, ("left", "right", "right", "right"), rows)


def _failed(failed: FailedRequest) -> Table:
    row = coded_row((), failed.asked_by, "stack", all_frames=False)
    title = f"out of memory: {failed_words(failed)}, asked by"
    return Table((title,), ("left",), (Row(row.cells, row.below),))


def _tried(tried: tuple[Candidate, ...], top: int) -> list[Block]:
    shown = tried[:top] if top else tried
    fails = any(one.simulated.ooms for one in tried)
    rows = [_row(one, fails) for one in shown]
    recorded = next((one for one in tried if one.is_recorded), None)
    if recorded is not None and recorded not in shown:
        rows.append(_row(recorded, fails))
    failed = ("failed",) if fails else ()
    titles = ("reserved", "unused", "allocs", "frees", "retries", *failed, "settings")
    numbers: list[Align] = ["right"] * (len(titles) - 1)
    table = Table(titles, (*numbers, "left"), tuple(rows), spare=(3, 1, 2), least=SETTINGS_WIDTH)
    blocks: list[Block] = [table]
    if left := len(tried) - len(rows):
        blocks.append(Note(f"{counted(left, 'more setting')} tried (--top 0 shows all)"))
    if any(one.exactness != "exact" for one in shown):
        blocks.append(Note(f"{NOT_EXACT} before a number that is an estimate"))
    return blocks


def _row(one: Candidate, fails: bool) -> Row:
    found = one.simulated
    about = "" if one.exactness == "exact" else NOT_EXACT
    words, below = settings_lines(one.settings)
    if one.is_recorded:
        below = (*below, (Place("of the recording"), "plain"))
    if one.stopped_event is not None:
        ended = f"out of memory at event {count(one.stopped_event)}"
        below = (*below, (Place(ended), "plain"))
    return Row(
        (
            about + size(found.reserved_peak_bytes),
            size(found.unused_bytes),
            count(found.driver_allocs),
            count(found.driver_frees),
            count(found.alloc_retries),
            *((count(found.ooms),) if fails else ()),
            words,
        ),
        below,
        style="strong" if one.is_recorded else "plain",
    )
