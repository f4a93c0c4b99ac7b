"""Show which memory each category rule matched."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.caught.records import Caught, RulesCaught
from memreplay.render.document import Block, Note, Row, Table
from memreplay.render.holders import group_row, group_rows, one_line, share
from memreplay.render.units import count, counted, percent, size


def caught_blocks(found: RulesCaught, live_bytes: int, *, all_frames: bool) -> list[Block]:
    """Show how much of `live_bytes` each rule matched and how much no rule matched."""
    if not live_bytes:
        return []
    blocks: list[Block] = [_rules_table(found, live_bytes, all_frames)]
    if found.unknown:
        blocks.append(_unknown_table(found, live_bytes, all_frames))
    return [*blocks, *(Note(words) for words in found.notes)]


def caught_text(found: RulesCaught) -> str:
    """Describe the source of categories, e.g. `guessed by 24 rules, 2 of them from the
    configuration`.
    """
    own = sum(one.own for one in found.rules)
    rules = counted(len(found.rules), "rule")
    if own:
        rules += f", {count(own)} of them from the configuration"
    if found.categories_source == "recorded":
        noted = "recorded: as memreplay noted them while the program ran"
        return f"{noted}, after {rules}" if own else noted
    return f"guessed by {rules}"


def _rules_table(found: RulesCaught, live_bytes: int, all_frames: bool) -> Table:
    """Return the rules in order; default rules without matches have no row."""
    rows = [_rule_row(one, all_frames) for one in found.rules if one.count or one.own]
    numbers = (size(found.unknown_bytes), percent(share(found.unknown_bytes, live_bytes)))
    more = "(see below)" if found.unknown else ""
    unknown = (*numbers, count(found.unknown_count), "-", "unknown", more)
    rows.append(Row(unknown, style="plain" if found.unknown_count else "dim"))
    titles = ("bytes", "share", "count", "rule", "category", "most of it allocated at")
    if found.categories_source == "recorded" and not any(one.own for one in found.rules):
        rows = [replace(row, cells=(*row.cells[:3], *row.cells[4:])) for row in rows]
        return Table((*titles[:3], *titles[4:]), (*("right",) * 3, "left", "left"), tuple(rows))
    return Table(titles, (*("right",) * 4, "left", "left"), tuple(rows))


def _rule_row(one: Caught, all_frames: bool) -> Row:
    if one.largest is None:
        return Row(
            ("0 B", "0%", "0", count(one.rule_number or 0), one.category, "(nothing)"), style="dim"
        )
    row = group_row(one.largest, "stack", all_frames=all_frames)
    row = row if all_frames else one_line(row)
    rule = "-" if one.rule_number is None else count(one.rule_number)
    numbers = (size(one.bytes), percent(one.share), count(one.count), rule)
    category, _, mostly = one.category.partition(": ")
    if mostly and not one.own and not one.largest.frames:
        # This memory has no stack. Its label explains what it is.
        return Row((*numbers, category, f"({mostly})"), row.below, row.style)
    return Row((*numbers, one.category, row.cells[-1]), row.below, row.style)


def _unknown_table(found: RulesCaught, live_bytes: int, all_frames: bool) -> Table:
    rows = group_rows(found.unknown, "stack", all_frames=all_frames)
    left = found.unknown_total - len(found.unknown)
    if left:
        n_bytes = found.unknown_bytes - sum(group.bytes for group in found.unknown)
        n = found.unknown_count - sum(group.count for group in found.unknown)
        part = percent(share(n_bytes, live_bytes))
        words = f"{counted(left, 'more stack')} (--top 0 shows all)"
        rows.append(Row((size(n_bytes), part, count(n), words), style="dim"))
    why = "nothing was noted" if found.categories_source == "recorded" else "no rule matches"
    titles = ("bytes", "share", "count", f"unknown: {why}")
    return Table(titles, ("right", "right", "right", "left"), tuple(rows))
