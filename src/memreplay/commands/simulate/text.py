"""Format a simulation as text, compared with the recording."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.simulating.records import Candidate, Changed, FailedRequest
from memreplay.commands.simulate.cards_text import besides, cards_blocks, fitting_text, need_pairs
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
    device_blocks,
)
from memreplay.render.holders import coded_row
from memreplay.render.reasons import notes_of
from memreplay.render.simulations import (
    NOT_EXACT,
    SETTINGS_WIDTH,
    failed_text,
    settings_lines,
    settings_text,
)
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    signed_count,
    signed_size,
    size,
)

UNCHANGED = (
    "nothing was changed, so this simulates the recording itself; give --set, --total-memory,"
    " --scale or --search settings"
)


def simulate_document(report: SimulateReport, *, top: int = 20) -> Document:
    """Build a section per device, with recorded and simulated numbers side by side, and the `top`
    best results of a search (0: all).
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to simulate: the file has neither events nor segments"))
    blocks += device_blocks([_section(device, top) for device in report.devices])
    if report.devices and all(map(_is_unchanged, report.devices)):
        blocks.append(Note(UNCHANGED))
    return tuple(blocks)


def _section(device: DeviceSimulation, top: int) -> list[Block]:
    first, *others = (*fitting_text(device), *_headline(device))
    blocks: list[Block] = [Heading((f"device {device.device}: {first}", *others))]
    if _nothing(device):
        needs = need_pairs(device)
        return [*blocks, *([Pairs(needs)] if needs else []), *notes_of(device)]
    blocks += [Pairs(_pairs(device)), _beside(device)]
    if device.failed is not None:
        blocks.append(_failed(device.failed))
    if device.stopped_event is not None:
        blocks.append(Note("the simulation ends there: what the program does next can't be known"))
    if device.candidates is not UNSET:
        blocks += _tried(device.candidates, top)
    blocks += cards_blocks(device)
    if words := besides(device):
        blocks.append(Note(words))
    return [*blocks, *notes_of(device)]


def _is_unchanged(device: DeviceSimulation) -> bool:
    """Return whether the simulation, if there is one, just repeats the recording."""
    asked = device.candidates or device.cards or device.need or device.changed
    same = (device.settings, device.program_memory_bytes) == (
        device.recorded_settings or "",
        device.recorded_program_memory_bytes,
    )
    return same and not asked and not _nothing(device)


def _nothing(device: DeviceSimulation) -> str:
    """Return why there's nothing to simulate, or "" if there is something."""
    if not device.events:
        return "no events"
    return "no allocation was recorded" if "no_allocations" in device.reasons else ""


def _headline(device: DeviceSimulation) -> tuple[str, ...]:
    recorded, after = device.recorded, device.simulated.reserved_peak_bytes
    if why := _nothing(device):
        return (f"{why}, so there is nothing to simulate",)
    best = "at best " if device.candidates is not UNSET else ""
    if device.stopped_event is not None:
        events = count(device.first_event + device.events)
        at = f"out of memory at event {count(device.stopped_event)} of {events}"
        return (f"{best}{at}", "where the recording continues")
    phrases = [f"{best}reserves {size(after)} at its peak"]
    if recorded is None:
        if ooms := device.simulated.oom_count:
            phrases = [f"{counted(ooms, 'request')} {'fails' if ooms == 1 else 'fail'}", *phrases]
        return (*phrases, "unknown in the recording")
    before = recorded.reserved_peak_bytes
    if before == after:
        phrases.append("the same as recorded")
    else:
        less = "less" if after < before else "more"
        phrases.append(f"{size(abs(after - before))} {less} than recorded")
    if recorded.oom_count or device.simulated.oom_count:
        phrases = [_failing(recorded.oom_count, device.simulated.oom_count), *phrases]
    return tuple(phrases)


def _failing(before: int, after: int) -> str:
    """Return text such as `2 requests fail as recorded` or `no request fails (recorded: 2)`."""
    fails = f"{counted(after, 'request')} {'fails' if after == 1 else 'fail'}"
    if before == after:
        return f"{fails} as recorded"
    return f"{fails if after else 'no request fails'} (recorded: {count(before)})"


def _pairs(device: DeviceSimulation) -> tuple[tuple[str, str], ...]:
    changed = () if device.changed is None else (("changed", _changed(device.changed)),)
    return (
        *changed,
        ("recorded", _setting(device.recorded_settings, device.recorded_program_memory_bytes)),
        ("simulated", _setting(device.settings, device.program_memory_bytes) + _context(device)),
        *need_pairs(device),
        ("result", trust_label(device)),
    )


def _context(device: DeviceSimulation) -> str:
    if not device.context_bytes:
        return ""
    how = "measured" if device.context_measured else "an estimate"
    return f", after {size(device.context_bytes)} of the card for CUDA itself ({how})"


def _changed(changed: Changed) -> str:
    chosen = f"{counted(changed.allocation_count, 'allocation')} of {size(changed.bytes)} in all"
    before = counted(changed.carried_over_blocks, "block") if changed.carried_over_blocks else ""
    if changed.factor == 0:
        return f"{chosen}, left out" + (f", and {before} from before" if before else "")
    how = "made twice" if changed.twice else f"at {changed.factor:g} times their size"
    return f"{chosen}, {how}" + (f"; {before} from before as they were" if before else "")


def _setting(settings: str | None, total: int | None) -> str:
    card = "" if total is None else f", with {size(total)} for the program"
    return settings_text(settings) + card


def _beside(device: DeviceSimulation) -> Table:
    """Build a table with recorded and simulated numbers as columns, and the change."""
    new, old = device.simulated, device.recorded or device.simulated

    def row(name: str, before: int, after: int, *, sizes: bool = False) -> Row:
        say, change = (size, signed_size) if sizes else (count, signed_count)
        if device.recorded is None:
            return Row((name, say(after)))
        if device.stopped_event is not None:
            return Row((name, say(before), say(after)))
        return Row(
            (name, say(before), say(after), change(after - before) if after != before else "same")
        )

    requested: tuple[Row, ...] = ()
    if device.changed is not None:
        name = "peak requested"
        requested = (row(name, old.requested_peak_bytes, new.requested_peak_bytes, sizes=True),)
    rows = (
        *requested,
        row("peak reserved", old.reserved_peak_bytes, new.reserved_peak_bytes, sizes=True),
        row("unused", old.unused_bytes, new.unused_bytes, sizes=True),
        row("peak active", old.active_peak_bytes, new.active_peak_bytes, sizes=True),
        row("segments at the end", old.segments, new.segments),
        row("driver allocs", old.driver_allocs, new.driver_allocs),
        row("driver frees", old.driver_frees, new.driver_frees),
        row("retries", old.alloc_retries, new.alloc_retries),
        row("failed requests", old.oom_count, new.oom_count),
    )
    if device.recorded is None:
        return Table(("", "simulated"), ("left", "right"), rows)
    # Numbers of a run that ended early can't be compared with a complete run's.
    if device.stopped_event is not None:
        return Table(("", "recorded", "up to there"), ("left", "right", "right"), rows)
    titles = ("", "recorded", "simulated", "change")
    return Table(titles, ("left", "right", "right", "right"), rows)


def _failed(failed: FailedRequest) -> Table:
    row = coded_row((), failed.asked_by, "stack", all_frames=False)
    title = f"out of memory: {failed_text(failed)}, requested at"
    return Table((title,), ("left",), (Row(row.cells, row.below),))


def _tried(tried: tuple[Candidate, ...], top: int) -> list[Block]:
    shown = tried[:top] if top else tried
    fails = any(one.simulated.oom_count for one in tried)
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
        blocks.append(Note(f"{NOT_EXACT} marks estimates"))
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
            *((count(found.oom_count),) if fails else ()),
            words,
        ),
        below,
        style="strong" if one.is_recorded else "plain",
    )
