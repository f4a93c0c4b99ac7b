"""Format the one-page report as text."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.leaks.records import DOUBTS
from memreplay.analysis.trust.trust import EVENTS_LOST_BEFORE, NOT_RECORDED
from memreplay.commands.leaks.text import grew_late, leaking_noun, odds_text
from memreplay.commands.oom.result import Oom
from memreplay.commands.oom.text import cause_text
from memreplay.commands.report.advice_text import (
    RECORDING,
    SHOWN_ADVICE,
    advice_title,
    ends_high,
    place_text,
)
from memreplay.commands.report.result import Advice, DeviceOverview, Overview
from memreplay.commands.steps.text import source_text
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Line,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Table,
)
from memreplay.render.holders import group_row, holder_tables, one_line, share
from memreplay.render.recorded_holders import holder_blocks
from memreplay.render.recorded_memory import card_blocks, host_line
from memreplay.render.trust import (
    NOT_RESERVED,
    doubts_of,
    doubts_text,
    seen_text,
    trust_label,
    trust_text,
)
from memreplay.render.units import (
    count,
    counted,
    duration,
    known_size,
    percent,
    signed_duration,
    size,
)
from memreplay.render.where import where_text
from memreplay.texts import clean_short

SHOWN_CATEGORIES = 4
SHOWN_OTHERS = 15  # maximum number of devices to list
AUTOGRAD_DETAIL = "autograd detail"
_AUTOGRAD = f"{AUTOGRAD_DETAIL}: temporaries of the backward pass"
TRIFLE = 0.0005  # smaller shares are printed as 0.0%
SHOWN_SOURCE = 80  # maximum length of a source line within a sentence, in characters


def report_document(report: Overview) -> Document:
    """Build a page for the worst device, and a line for each other device."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to report: the file has neither events nor segments"))
        return tuple(blocks)
    worst, *others = report.devices
    memory = card_blocks(report.card_memory)
    if host := host_line(report.host_memory):
        memory.append(Pairs((("host memory", host),)))
    blocks += _page(worst, [*holder_blocks(report.held_by), *memory])
    if others:
        blocks += [Heading((counted(len(others), "other device"),)), _others(others[:SHOWN_OTHERS])]
        if len(others) > SHOWN_OTHERS:
            more = count(len(others) - SHOWN_OTHERS)
            blocks.append(Note(f"{more} more (--device N shows one, --format json all)"))
    return tuple(blocks)


def report_line(report: Overview) -> str:
    """Return a line on the worst device (peak, out of memory, leaks), then on others that ran out
    of memory or leak.
    """
    if not report.devices:
        return "neither events nor segments"
    worst, *others = report.devices
    found = [_in_short(worst)]
    if others:
        found.append(counted(len(others), "other device"))
    found += [_in_short(one) for one in others if one.ran_out or _is_leaking(one)]
    return "; ".join(found)


def _in_short(device: DeviceOverview) -> str:
    peak, ran, _ = headline(device)
    leaks = device.leaks
    judged = leaks is not None and device.leaks_judged and not leaks.by_windows
    none = "none found" if judged else "not judged"
    words = [peak, ran, f"leaks: {_leaks(device) if _is_leaking(device) else none}"]
    high = device.peak
    if not device.ran_out and high.events and ends_high(device):
        # Memory that ends near its peak is typical after an error that left no event.
        words.insert(2, f"ends at {percent(share(high.end_bytes, high.peak_bytes))} of the peak")
    if not device.trusted:
        words.append(_label(device))
    return ", ".join(words)


def _is_leaking(device: DeviceOverview) -> bool:
    leaks = device.leaks
    if leaks is None or not device.leaks_judged:
        return False
    return bool(leaks.leaks_total or leaks.whole_bytes_per_step)


def _page(device: DeviceOverview, more: list[Block]) -> list[Block]:
    blocks: list[Block] = [Heading(headline(device)), Pairs(_pairs(device))]
    blocks += [*_holders(device), *more]
    if advice := _advice(device):
        words = "what to do next"
        if sum(one.saved_bytes > 0 for one in advice) > 1:
            words += " (savings overlap, so they don't add up)"
        rows = tuple((advice_title(one), one.text) for one in advice)
        blocks += [Heading((words,)), Pairs(rows)]
    lines: list[Line] = []
    for command, reason in zip(device.commands, device.command_reasons, strict=True):
        # The reason is a comment, so that copying both lines runs only the command.
        lines += [((f"# {reason}", "dim"),), ((command, "plain"),)]
    return [*blocks, Picture(tuple(lines))]


def _advice(device: DeviceOverview) -> list[Advice]:
    """Return the first pieces of advice, with at most one about the recording."""
    found: list[Advice] = []
    for one in device.advice:
        title = advice_title(one)
        if title != RECORDING or title not in map(advice_title, found):
            found.append(one)
    return found[:SHOWN_ADVICE]


def headline(device: DeviceOverview) -> tuple[str, str, str]:
    """Return the device's verdict: its peak, whether a request failed, and the exactness."""
    peak = size(device.peak.peak_bytes)
    name = f"device {device.device}"
    ran = "memory ran out" if device.ran_out else "no request failed"
    if not device.ran_out and EVENTS_LOST_BEFORE.intersection(device.reasons):
        ran += f" in the last {counted(device.peak.events, 'event')}"
    if not device.ran_out and not device.peak.events:
        ran = "no events were recorded"
    elif not device.ran_out and "no_allocations" in device.reasons:
        ran = "no allocation was recorded"
    high = f"{peak} held at the end" if _is_of_the_end(device) else f"peak {peak}"
    return (f"{name}: {high}", ran, _label(device))


def doubts_line(device: DeviceOverview) -> str:
    """Return the reasons why the device's numbers aren't exact; "" for exact numbers."""
    return "" if _label(device) == "exact" else _trust(device)


def _is_of_the_end(device: DeviceOverview) -> bool:
    """Return whether only the final state is known, so that there's no peak."""
    return bool(NOT_RECORDED.intersection(device.reasons))


def _pairs(device: DeviceOverview) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("trust", _trust(device)),
        ("out of memory", _oom(device)),
        ("reserved", _reserved(device)),
        ("held" if _is_of_the_end(device) else "peak", _peak(device)),
    ]
    where = _where(device)
    if where:
        pairs.append(("during", where))
    pairs.append(("categories", _categories(device)))
    pairs.append(("unused", _unused(device)))
    pairs.append(("leaks", _leaks(device)))
    return tuple(pairs)


def _missing(device: DeviceOverview, part: str) -> str:
    return device.missing_parts.get(part, "not in the file")


def _others_doubted(device: DeviceOverview) -> list[str]:
    """Return doubts about numbers other than the peak."""
    own = set(device.peak.reasons)
    return [one for one in doubts_of(device.reasons) if one not in own]


def _label(device: DeviceOverview, *, brief: bool = False) -> str:
    label = trust_label(device.peak)
    if doubts_of(device.peak.reasons) or not _others_doubted(device):
        return label
    others = "" if brief else ", other measures not trustworthy"
    return f"{device.peak.measure} {label}{others}"


def _trust(device: DeviceOverview) -> str:
    words = trust_text(device.peak)
    others = _others_doubted(device)
    if not others or doubts_of(device.peak.reasons):
        return words
    if not seen_text(device.peak.reasons, 0)[0]:
        # "The snapshot is consistent" would contradict the text that follows.
        words = f"{device.peak.measure.capitalize()} bytes are {device.peak.exactness}."
    return f"{words} Other measures are not trustworthy: {doubts_text(others)}."


def _oom(device: DeviceOverview) -> str:
    if device.oom is None:
        return _missing(device, "oom")
    if not device.oom.ooms:
        peak = device.peak
        if not peak.events:
            return "not known: no events were recorded"
        if "no_allocations" in device.reasons:
            return "not known: no allocation was recorded"
        # A dump after an error may lack the event, so show where memory ended.
        last = "the last " if EVENTS_LOST_BEFORE.intersection(device.reasons) else ""
        none = f"No request failed in {last}{counted(peak.events, 'event')}"
        if "truncated" in device.reasons:
            return f"{none}, but the file is cut off: a later request may have failed"
        part = percent(share(peak.end_bytes, peak.peak_bytes))
        if ends_high(device):
            return (
                f"{none}, but they end at {part} of the peak: a request may have failed right after"
            )
        if not peak.end_bytes:
            return f"{none}. All memory was freed by the end"
        return f"{none}. Ended at {part} of the peak"
    oom = device.oom.ooms[0]
    place = asked_at(oom)
    by = f" by {place}" if place else ""
    if place and (source := oom.asked_by.frames[oom.asked_by.user[0]].source):
        by += f" ({clean_short(source, SHOWN_SOURCE)})"
    total = device.oom.ooms_total
    asked = f"{size(oom.request_bytes)}{by}"
    asked = (
        f"{count(total)} requests failed, the first of {asked}" if total > 1 else f"{asked} failed"
    )
    state = f"{size(oom.active_bytes)} in use, {size(oom.cached_bytes)} cached"
    why = cause_text(oom)
    words = f"yes: {asked} at event {count(oom.event_index)} with {state}. {why}"
    if oom.after_allocations:
        went_on = counted(oom.after_events, "event")
        words += f" The program caught the error and went on for {went_on}."
    return words


def asked_at(oom: Oom) -> str:
    """Return the file and line of user code that made the request; "" if unknown."""
    user = oom.asked_by.user
    return place_text(oom.asked_by.frames[user[0]]) if user else ""


def _reserved(device: DeviceOverview) -> str:
    if device.reserved_peak_bytes is None:
        where = "trace" if "from_profiler" in device.reasons else "file"
        return f"not in the {where}"
    reserved = size(device.reserved_peak_bytes)
    about = ""
    if device.reserved_exactness == "estimated":
        doubted = _others_doubted(device) or not device.peak.trusted
        about = " (not trustworthy)" if doubted else " (estimated)"
    # Several events can show that reserved memory changed even if nothing else was recorded.
    at_end = _is_of_the_end(device) and device.peak.trace_events <= 1
    when = "at the end" if at_end else "at most"
    if device.total_memory_bytes is None or device.usable_bytes is None:
        return f"{reserved}{about} {when}; card size unknown (give --total-memory)"
    part = percent(share(device.reserved_peak_bytes, device.usable_bytes))
    total = size(device.total_memory_bytes)
    card = f"a {total} card" if device.total_memory_known else f"a card of at least {total}"
    if device.usable_bytes < device.total_memory_bytes:
        card = f"the {size(device.usable_bytes)} that a program can use on {card}"
    return f"{reserved}{about} {when}, {part} of {card}"


def _peak(device: DeviceOverview) -> str:
    peak = device.peak
    words = f"{size(peak.peak_bytes)} requested in {counted(peak.live_count, 'block')}"
    if _is_of_the_end(device):
        return f"{words} at the end"
    if peak.peak_event < peak.first_event:
        return f"{words}, carried over from before the first of {counted(peak.events, 'event')}"
    words += f" at event {count(peak.peak_event)} of {count(peak.trace_events)}"
    if peak.peak_us is not None and peak.start_us is not None:
        words += f", {signed_duration(peak.peak_us - peak.start_us)}"
    return words


def _where(device: DeviceOverview) -> str:
    peak = device.peak
    words = list(filter(None, (where_text(peak.step, peak.annotations),)))
    steps = device.steps
    # If the whole recording is one step, naming the step doesn't say where the peak is.
    source = None if steps is None else steps.step_source
    told = source is None or not source.is_whole
    if peak.step is None and device.step is not None and steps is not None and told:
        of = f"step {count(device.step.number)} of {count(len(steps.steps))}"
        words.insert(0, f"{of} ({_source(device)})")
    if device.category != UNKNOWN:
        words.append(f"an allocation of category {device.category}")
    return ", ".join(words)


def _source(device: DeviceOverview) -> str:
    source = device.steps.step_source if device.steps else None
    return "as found" if source is None else source_text(source)


def _categories(device: DeviceOverview) -> str:
    found = device.caught
    if found is None:
        return _missing(device, "categories")
    whole = device.peak.peak_bytes
    if not whole:
        return "nothing was held"
    if found.unknown_bytes == whole:
        if not any(one.frames for one in device.peak.groups):
            return f"unknown: none of the {size(whole)} has a stack"
        return f"unknown: none of the {size(whole)} matches a category rule"
    sums: dict[str, int] = {}
    for one in found.rules:
        # In memreplay's own categories, the text after a colon is an explanation.
        name = one.category if one.own else one.category.partition(": ")[0]
        sums[name] = sums.get(name, 0) + one.bytes
    sums[UNKNOWN] = sums.get(UNKNOWN, 0) + found.unknown_bytes
    rows = sorted(((n, name) for name, n in sums.items() if n), reverse=True)
    shown = [f"{size(n)} {name} ({percent(n / whole)})" for n, name in rows]
    rest = sum(n for n, _ in rows[SHOWN_CATEGORIES:])
    words = ", ".join(shown[:SHOWN_CATEGORIES])
    if rest > TRIFLE * whole:
        words += f", {size(rest)} in {count(len(rows) - SHOWN_CATEGORIES)} more"
    names = [name for _, name in rows[:SHOWN_CATEGORIES]]
    return f"{words}; {_AUTOGRAD}" if AUTOGRAD_DETAIL in names else words


def _unused(device: DeviceOverview) -> str:
    point = device.unused
    if point is None or device.fragmentation is None:
        return _missing(device, "fragmentation")
    if point.active_bytes > point.reserved_bytes:
        return NOT_RESERVED
    part = percent(share(point.unused_bytes, point.reserved_bytes))
    words = f"{size(point.unused_bytes)} ({part}) of {size(point.reserved_bytes)} reserved"
    if _is_of_the_end(device):
        return f"{words}, at the end"
    return f"{words}; active bytes peaked at {size(point.active_bytes)}"


def _leaks(device: DeviceOverview) -> str:
    leaks = device.leaks
    if leaks is None or leaks.step_source is None or not device.leaks_judged:
        return f"not judged: {_missing(device, 'leaks')}"
    unit = "window" if leaks.by_windows else "step"
    over = f"over {counted(leaks.step_count, unit)}"
    if unit == "window":
        over += " (equal parts of the events)"
    if leaks.unless == "late_state":
        grows = size(leaks.leak_bytes_per_step or leaks.whole_bytes_per_step)
        return f"memory grows by {grows} a {unit}, {over}: {DOUBTS[leaks.unless].words}"
    if leaks.leaks_total:
        stacks = counted(leaks.leaks_total, leaking_noun(leaks))
        keep = "keeps" if leaks.leaks_total == 1 else "keep"
        words = f"{stacks} {keep} {size(leaks.leak_bytes_per_step)} more a {unit}, {over}"
        if leaks.leaks and leaks.unless is None:
            words += f" (odds {odds_text(min(one.odds for one in leaks.leaks))})"
    elif leaks.whole_bytes_per_step:
        rate = f"{size(leaks.whole_bytes_per_step)} a {unit}"
        words = f"memory grows by {rate} {over}, but no single stack does"
    else:
        maybe = [one for one in leaks.once if one.odds >= 1]
        if not maybe:
            few = ", which is too few to be sure" if leaks.unsure else ""
            more = leaks.growing_bytes_per_step
            growing = f"; each {unit} needs {size(more)} more than the last" if more else ""
            late = any(grew_late(one, leaks) for one in leaks.once)
            trained = "; optimizer state grew as layers were unfrozen" if late else ""
            none = "no stack grows throughout," if leaks.by_windows else "none found"
            return f"{none} {over}{few}{growing}{trained}"
        first = max(maybe, key=lambda one: one.odds)
        return f"none certain {over}; {first.label} may leak (odds {odds_text(first.odds)})"
    if leaks.unless is not None:
        return f"{words}: {DOUBTS[leaks.unless].words}"
    out = leaks.runs_out
    if out is not None:
        after = f" ({duration(out.after_us)})" if out.after_us is not None else ""
        total, steps = size(out.total_memory_bytes), counted(out.step_count, unit)
        when = f"after {steps} more{after}" if out.step_count else "already"
        words += f"; fills {total} {when}"
    return words


def _holders(device: DeviceOverview) -> list[Block]:
    """Return `memreplay peak`'s table with only as many callers as are needed to tell rows
    apart.
    """
    peak = device.peak
    (table,) = holder_tables(peak, peak.peak_bytes, "stack", all_frames=False) or (None,)
    if table is None:
        return []
    rows = _shortest(table.rows)
    last = rows[-1]
    if peak.groups_total > len(peak.groups):
        words = f"{counted(peak.groups_total - len(peak.groups), 'more group')}"
        rows = (*rows[:-1], replace(last, cells=(*last.cells[:-1], words)))
    return [replace(table, rows=rows)]


def _shortest(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return rows with one caller each, or with more if rows would look the same."""
    shown = [1] * len(rows)
    while True:
        found = [replace(row, below=row.below[:n]) for row, n in zip(rows, shown, strict=True)]
        seen = Counter((row.cells[-1], row.below) for row in found)
        longer = [
            i
            for i, row in enumerate(found)
            if seen[row.cells[-1], row.below] > 1 and shown[i] < len(rows[i].below)
        ]
        if not longer:
            return tuple(found)
        for i in longer:
            shown[i] += 1


def _others(devices: list[DeviceOverview]) -> Table:
    titles = ("device", "peak", "reserved", "failed", "numbers", "largest holder")
    rows = []
    for one in devices:
        ran = "?" if one.oom is None else count(one.oom.ooms_total)
        cells = (
            count(one.device),
            size(one.peak.peak_bytes),
            known_size(one.reserved_peak_bytes),
            ran,
            _label(one, brief=True),
        )
        holder = next(iter(one.peak.groups), None)
        row = Row(("-",)) if holder is None else group_row(holder, "stack", all_frames=False)
        rows.append(Row((*cells, one_line(row).cells[-1])))
    return Table(titles, (*("right",) * 5, "left"), tuple(rows), spare=(3, 2))
