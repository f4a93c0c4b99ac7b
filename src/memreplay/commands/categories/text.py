"""Writes what rules of categories caught as a document for people."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.commands.at.text import when_words
from memreplay.commands.categories.result import CategoriesReport, Caught, DeviceCategories
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.headline import moment_phrases
from memreplay.render.holders import group_row, group_rows, one_line, share
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import count, counted, percent, range_words, size


def categories_document(report: CategoriesReport) -> Document:
    """The file, then a section a device: what each rule caught, and what none did."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for found in report.devices:
        blocks += _section(found, report)
    return tuple(blocks)


def _section(found: DeviceCategories, report: CategoriesReport) -> list[Block]:
    live = f"device {found.device}: {size(found.live_bytes)} {found.measure}"
    heading = (
        moment_phrases(live, found, "after") if found.events else (f"{live} in the final state",)
    )
    blocks: list[Block] = [Heading(heading), Pairs(_pairs(found, report))]
    if found.live_count:
        blocks.append(_rules_table(found, report))
        if found.unknown:
            blocks.append(_unknown_table(found, report))
    else:
        blocks.append(Note(NOTHING_LEFT if report.filters else "nothing was held"))
    notes = [Note(words) for words in found.notes]
    return [
        *blocks,
        *notes,
        *notes_of(found),
    ]


def _pairs(found: DeviceCategories, report: CategoriesReport) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("moment", when_words(report.moment)),
        ("measure", f"{found.measure}, {trust_label(found)}"),
    ]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} alone"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} alone"))
    pairs += filter_pairs(report.filters)
    if found.events < found.trace_events:
        words = range_words(found.first_event, found.events, found.trace_events)
        pairs.append(("range", words))
    pairs.append(("live", counted(found.live_count, "block")))
    own = sum(one.own for one in found.rules)
    rules = counted(len(found.rules), "rule")
    if own:
        rules += f", {count(own)} of them from the configuration"
    if found.source == "recorded":
        noted = "recorded: as memreplay noted them while the program ran"
        pairs.append(("categories", f"{noted}, after {rules}" if own else noted))
    else:
        pairs.append(("categories", f"guessed by {rules}"))
    return tuple(pairs)


def _rules_table(found: DeviceCategories, report: CategoriesReport) -> Table:
    """The rules in their order; a default one that caught nothing has no row."""
    rows = [_rule_row(one, report) for one in found.rules if one.count or one.own]
    numbers = (size(found.unknown_bytes), percent(share(found.unknown_bytes, found.live_bytes)))
    more = "(see below)" if found.unknown else ""
    unknown = (*numbers, count(found.unknown_count), "-", "unknown", more)
    rows.append(Row(unknown, style="plain" if found.unknown_count else "dim"))
    titles = ("bytes", "share", "count", "rule", "category", "most of it allocated at")
    if found.source == "recorded" and not any(one.own for one in found.rules):
        rows = [replace(row, cells=(*row.cells[:3], *row.cells[4:])) for row in rows]
        return Table((*titles[:3], *titles[4:]), (*("right",) * 3, "left", "left"), tuple(rows))
    return Table(titles, (*("right",) * 4, "left", "left"), tuple(rows))


def _rule_row(one: Caught, report: CategoriesReport) -> Row:
    if one.largest is None:
        return Row(("0 B", "0%", "0", count(one.rule or 0), one.category, "(nothing)"), style="dim")
    row = group_row(one.largest, "stack", all_frames=report.all_frames)
    row = row if report.all_frames else one_line(row)
    rule = "-" if one.rule is None else count(one.rule)
    numbers = (size(one.bytes), percent(one.share), count(one.count), rule)
    category, _, mostly = one.category.partition(": ")
    if mostly and not one.own and not one.largest.frames:
        # It has no stack, and its name says what it is.
        return Row((*numbers, category, f"({mostly})"), row.below, row.style)
    return Row((*numbers, one.category, row.cells[-1]), row.below, row.style)


def _unknown_table(found: DeviceCategories, report: CategoriesReport) -> Table:
    rows = group_rows(found.unknown, "stack", all_frames=report.all_frames)
    left = found.unknown_total - len(found.unknown)
    if left:
        n_bytes = found.unknown_bytes - sum(group.bytes for group in found.unknown)
        n = found.unknown_count - sum(group.count for group in found.unknown)
        part = percent(share(n_bytes, found.live_bytes))
        words = f"{counted(left, 'more stack')} (--top 0 shows all)"
        rows.append(Row((size(n_bytes), part, count(n), words), style="dim"))
    why = "nothing was noted" if found.source == "recorded" else "no rule matches"
    titles = ("bytes", "share", "count", f"unknown: {why}")
    return Table(titles, ("right", "right", "right", "left"), tuple(rows))
