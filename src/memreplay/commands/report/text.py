"""Writes a report's one page as a document for people."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.trust.trust import EVENTS_LOST_BEFORE, NOT_RECORDED
from memreplay.commands.leaks.text import grew_late, odds_words
from memreplay.commands.oom.text import AT_PEAK, cause_words
from memreplay.commands.report.advice_words import (
    RECORDING,
    SHOWN_ADVICE,
    advice_title,
    place_words,
)
from memreplay.commands.report.result import DeviceOverview, Overview
from memreplay.commands.steps.text import source_words
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
from memreplay.render.trust import doubts_of, doubts_words, trust_label, trust_words
from memreplay.render.units import count, counted, duration, percent, signed_duration, size
from memreplay.render.where import where_words
from memreplay.texts import clean_short

SHOWN_CATEGORIES = 4
SHOWN_OTHERS = 15  # devices
TRIFLE = 0.0005  # a share that would be shown as 0.0%
SHOWN_ANNOTATIONS = 3
SHOWN_SOURCE = 80  # characters of a line within a sentence


def report_document(report: Overview) -> Document:
    """The worst device on a page, and a line for each other one."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to report: the file has neither events nor segments"))
        return tuple(blocks)
    worst, *others = report.devices
    blocks += _page(worst)
    if others:
        blocks += [Heading((counted(len(others), "other device"),)), _others(others[:SHOWN_OTHERS])]
        if len(others) > SHOWN_OTHERS:
            more = count(len(others) - SHOWN_OTHERS)
            blocks.append(Note(f"{more} more (--device N shows one, --format json all)"))
    return tuple(blocks)


def report_line(report: Overview) -> str:
    """The worst device in a line: its peak, whether memory ran out, whether it leaks; then those of
    the others that ran out or leak."""
    if not report.devices:
        return "neither events nor segments"
    worst, *others = report.devices
    found = [_in_short(worst)]
    if others:
        found.append(counted(len(others), "other device"))
    found += [_in_short(one) for one in others if one.ran_out or _is_leaking(one)]
    return "; ".join(found)


def _in_short(device: DeviceOverview) -> str:
    peak, ran, _ = _headline(device)
    leaks = device.leaks
    judged = leaks is not None and leaks.source is not None and device.leaks_judged
    none = "none found" if judged else "not judged"
    words = [peak, ran, f"leaks: {_leaks(device) if _is_leaking(device) else none}"]
    high = device.peak
    if not device.ran_out and high.events and high.end_bytes >= AT_PEAK * high.peak_bytes:
        # As after an error that left no event of it.
        words.insert(2, f"ends at {percent(share(high.end_bytes, high.peak_bytes))} of the peak")
    if not device.trusted:
        words.append(_label(device))
    return ", ".join(words)


def _is_leaking(device: DeviceOverview) -> bool:
    leaks = device.leaks
    if leaks is None or not device.leaks_judged:
        return False
    return bool(leaks.leaks_total or leaks.whole_bytes_per_step)


def _page(device: DeviceOverview) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(device)), Pairs(_pairs(device))]
    blocks += _holders(device)
    rows = _advice(device)
    if rows:
        blocks += [Heading(("what to do next",)), Pairs(rows)]
    lines: list[Line] = []
    for command, reason in zip(device.commands, device.command_reasons, strict=True):
        # As a comment: whoever copies both lines runs one.
        lines += [((f"# {reason}", "dim"),), ((command, "plain"),)]
    return [*blocks, Picture(tuple(lines))]


def _advice(device: DeviceOverview) -> tuple[tuple[str, str], ...]:
    """The first pieces of advice, one at most about the recording."""
    found: list[tuple[str, str]] = []
    for one in device.advice:
        title = advice_title(one)
        if title != RECORDING or title not in dict(found):
            found.append((title, one.text))
    return tuple(found[:SHOWN_ADVICE])


def _headline(device: DeviceOverview) -> tuple[str, ...]:
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


def _is_of_the_end(device: DeviceOverview) -> bool:
    """Whether only the final state is known: no number is the most of anything."""
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
    return device.missing.get(part, "the file does not say")


def _others_doubted(device: DeviceOverview) -> list[str]:
    """What speaks against other numbers than the peak."""
    own = set(device.peak.reasons)
    return [one for one in doubts_of(device.reasons) if one not in own]


def _label(device: DeviceOverview) -> str:
    label = trust_label(device.peak)
    if doubts_of(device.peak.reasons) or not _others_doubted(device):
        return label
    return f"{label}, other numbers not trustworthy"


def _trust(device: DeviceOverview) -> str:
    words = trust_words(device.peak)
    others = _others_doubted(device)
    if not others or doubts_of(device.peak.reasons):
        return words
    return f"{words} Other numbers are not trustworthy: {doubts_words(others)}."


def _oom(device: DeviceOverview) -> str:
    if device.oom is None:
        return _missing(device, "oom")
    if not device.oom.ooms:
        peak = device.peak
        if not peak.events:
            return "not known: no events were recorded"
        if "no_allocations" in device.reasons:
            return "not known: no allocation was recorded"
        # Who dumps after an error may have no event of it: then the end is where to look.
        last = "the last " if EVENTS_LOST_BEFORE.intersection(device.reasons) else ""
        none = f"No request failed in {last}{counted(peak.events, 'event')}"
        part = percent(share(peak.end_bytes, peak.peak_bytes))
        if peak.end_bytes >= AT_PEAK * peak.peak_bytes:
            return f"{none}, but they end at {part} of the peak: one may have failed right after"
        return f"{none}. Memory ended at {part} of its peak"
    oom = device.oom.ooms[0]
    by = ""
    if oom.asked_by.user:
        frame = oom.asked_by.frames[oom.asked_by.user[0]]
        by = f" by {place_words(frame)}"
        if frame.source:
            by += f" ({clean_short(frame.source, SHOWN_SOURCE)})"
    total = device.oom.ooms_total
    asked = f"{size(oom.request_bytes)}{by}"
    asked = (
        f"{count(total)} requests failed, the first of {asked}" if total > 1 else f"{asked} failed"
    )
    state = f"{size(oom.active_bytes)} in use, {size(oom.cached_bytes)} cached"
    why = cause_words(oom)
    words = f"yes: {asked} at event {count(oom.event_index)} with {state}. {why}"
    if oom.after_allocations:
        went_on = counted(oom.after_events, "event")
        words += f" The program caught the error and went on for {went_on}."
    return words


def _reserved(device: DeviceOverview) -> str:
    if not device.reserved_peak_bytes and device.peak.peak_bytes:
        where = "trace" if "from_profiler" in device.reasons else "file"
        return f"not in the {where}"
    reserved = size(device.reserved_peak_bytes)
    about = ""
    if device.reserved_exactness == "estimated":
        doubted = _others_doubted(device) or not device.peak.trusted
        about = " (not trustworthy)" if doubted else " (estimated)"
    # More than one event may tell how reserved memory changed, if nothing else was recorded.
    at_end = _is_of_the_end(device) and device.peak.trace_events <= 1
    when = "at the end" if at_end else "at most"
    if device.total_bytes is None or device.usable_bytes is None:
        return f"{reserved}{about} {when}; the card's size is unknown (--total-memory)"
    part = percent(share(device.reserved_peak_bytes, device.usable_bytes))
    least = "" if device.total_known else "at least "
    card = f"a card of {least}{size(device.total_bytes)}"
    if device.usable_bytes < device.total_bytes:
        card = f"the {size(device.usable_bytes)} that {card} has for the program"
    return f"{reserved}{about} {when}, {part} of {card}"


def _peak(device: DeviceOverview) -> str:
    peak = device.peak
    words = f"{size(peak.peak_bytes)} requested in {counted(peak.live_count, 'block')}"
    if _is_of_the_end(device):
        return f"{words} at the end"
    if peak.event_index < peak.first_event:
        return f"{words}, carried over from before the first of {counted(peak.events, 'event')}"
    words += f" at event {count(peak.event_index)} of {count(peak.trace_events)}"
    if peak.time_us is not None and peak.start_us is not None:
        words += f", {signed_duration(peak.time_us - peak.start_us)}"
    return words


def _where(device: DeviceOverview) -> str:
    peak = device.peak
    words = list(filter(None, (where_words(peak.step, peak.annotations[-SHOWN_ANNOTATIONS:]),)))
    steps = device.steps
    # That all which was read is one step says nothing of where in it a peak is.
    told = steps is not None and (steps.source is None or steps.source.kind != "whole")
    if peak.step is None and device.step is not None and steps is not None and told:
        of = f"step {count(device.step.index)} of {count(len(steps.steps))}"
        words.insert(0, f"{of} ({_source(device)})")
    if device.category != UNKNOWN:
        words.append(f"code of category {device.category}")
    return ", ".join(words)


def _source(device: DeviceOverview) -> str:
    source = device.steps.source if device.steps else None
    return "as found" if source is None else source_words(source)


def _categories(device: DeviceOverview) -> str:
    found = device.categories
    if found is None:
        return _missing(device, "categories")
    whole = device.peak.peak_bytes
    if not whole:
        return "nothing was held"
    if found.unknown_bytes == whole:
        return f"not known: no rule fits any stack of the {size(whole)}"
    sums: dict[str, int] = {}
    for one in found.rules:
        # What stands behind a colon in a category of ours explains it.
        name = one.category if one.own else one.category.partition(": ")[0]
        sums[name] = sums.get(name, 0) + one.bytes
    sums[UNKNOWN] = sums.get(UNKNOWN, 0) + found.unknown_bytes
    rows = sorted(((n, name) for name, n in sums.items() if n), reverse=True)
    shown = [f"{size(n)} {name} ({percent(n / whole)})" for n, name in rows]
    rest = sum(n for n, _ in rows[SHOWN_CATEGORIES:])
    words = ", ".join(shown[:SHOWN_CATEGORIES])
    return f"{words}, {size(rest)} others" if rest > TRIFLE * whole else words


def _unused(device: DeviceOverview) -> str:
    point = device.unused
    if point is None or device.fragmentation is None:
        return _missing(device, "fragmentation")
    if not point.reserved_bytes:
        return "the file shows no reserved memory"
    if point.active_bytes > point.reserved_bytes:
        return "more was active than reserved: segment events are missing in the file"
    part = percent(share(point.unused_bytes, point.reserved_bytes))
    words = f"{size(point.unused_bytes)} ({part}) of {size(point.reserved_bytes)} reserved"
    if _is_of_the_end(device):
        return f"{words}, at the end"
    return f"{words}: at most {size(point.active_bytes)} was active"


def _leaks(device: DeviceOverview) -> str:
    leaks = device.leaks
    if leaks is None or leaks.source is None or not device.leaks_judged:
        return f"not judged: {_missing(device, 'leaks')}"
    unit = "window" if leaks.source.kind == "windows" else "step"
    over = f"over {counted(leaks.steps, unit)}"
    if leaks.leaks_total:
        stacks = counted(leaks.leaks_total, "stack")
        keep = "keeps" if leaks.leaks_total == 1 else "keep"
        words = f"{stacks} {keep} {size(leaks.leak_bytes_per_step)} more a {unit}, {over}"
        if leaks.leaks:
            words += f" (odds {odds_words(min(one.odds for one in leaks.leaks))})"
    elif leaks.whole_bytes_per_step:
        rate = f"{size(leaks.whole_bytes_per_step)} a {unit}"
        words = f"memory grows by {rate} {over}, no stack by itself"
    else:
        maybe = [one for one in leaks.once if one.odds >= 1]
        if not maybe:
            few = ", which are few" if leaks.unsure else ""
            more = leaks.growing_bytes_per_step
            growing = f"; each {unit} needs {size(more)} more than the last" if more else ""
            late = any(grew_late(one, leaks) for one in leaks.once)
            trained = "; the optimizer's state grew with layers that were unfrozen" if late else ""
            return f"none {over}{few}{growing}{trained}"
        first = max(maybe, key=lambda one: one.odds)
        return f"none is sure {over}; {first.label} may leak (odds {odds_words(first.odds)})"
    if leaks.guessed:
        return f"{words}: a leak, unless this is a single pass"
    out = leaks.runs_out
    if out is not None:
        after = f" ({duration(out.after_us)})" if out.after_us is not None else ""
        words += f"; {size(out.total_bytes)} are full after {counted(out.steps, unit)} more{after}"
    return words


def _holders(device: DeviceOverview) -> list[Block]:
    """The table of `memreplay peak`, with as few callers as tell its rows apart."""
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
    """The rows with a caller each, and more of them where rows would look alike."""
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
            size(one.reserved_peak_bytes) if one.reserved_peak_bytes else "-",
            ran,
            _label(one),
        )
        holder = next(iter(one.peak.groups), None)
        row = Row(("-",)) if holder is None else group_row(holder, "stack", all_frames=False)
        rows.append(Row((*cells, one_line(row).cells[-1])))
    return Table(titles, (*("right",) * 5, "left"), tuple(rows))
