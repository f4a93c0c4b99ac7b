"""Sum up what each category rule matched in a live set, and what no rule matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.analysis.categories.rules import DEFAULT_RULES, UNKNOWN
from memreplay.analysis.caught.records import Caught, RulesCaught
from memreplay.analysis.groups.grouping import Grouper
from memreplay.engine.query import _groups
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

HIDDEN_CASTS = (
    "the program used autocast and the stacks have only Python frames, so weight"
    " copies kept for the backward pass count as activations; record with"
    ' stacks="all" to separate them'
)


class Catching(Struct, frozen=True):
    """Computes what category rules matched in one snapshot's live sets."""

    grouper: Grouper

    def of(self, usage: Usage, event: int, top: int) -> RulesCaught:
        """Return one device's live set after an event, by rule. `top` limits the number of
        unmatched stacks.
        """
        grouper = self.grouper
        way = grouper.dimensions.category
        recorded = grouper.snap.recorded is not None
        of_rules = grouper.dimensions.keys(usage, way.name) if recorded else way.of_rules(usage)
        of_stacks = grouper.keys(usage)
        both = _groups.pair(of_rules, of_stacks)
        # One row per rule and stack, largest first.
        found, _, whole, _ = both.sums(usage.listed(event), usage.native, 0)
        rule_names, stack_names = memoryview(of_rules.names()), memoryview(of_stacks.names())
        rows: dict[int, list[tuple[int, int, int]]] = {}
        for name, _, n_bytes, n, _ in found:
            row = stack_names[name & 0xFFFFFFFF], n_bytes, n
            rows.setdefault(rule_names[name >> 32], []).append(row)

        def group(row: tuple[int, int, int]) -> Group:
            return grouper.group(usage, *row, whole)

        caught = []
        unknown = rows.pop(_groups.NO_RULE, [])
        for name, category, own in _categories(grouper, usage, list(rows)):
            if recorded and category == UNKNOWN and not own:
                unknown += rows[name]
                continue
            mine = rows.get(name, [])
            held = sum(row[1] for row in mine)
            caught.append(
                Caught(
                    rule_number=name + 1 if own or not recorded else None,
                    category=category,
                    own=own,
                    bytes=held,
                    count=sum(row[2] for row in mine),
                    share=held / whole if whole else 0.0,
                    largest=group(mine[0]) if mine else None,
                )
            )
        return RulesCaught(
            categories_source="recorded" if recorded else "guessed",
            rules=tuple(caught),
            unknown_bytes=sum(row[1] for row in unknown),
            unknown_count=sum(row[2] for row in unknown),
            unknown_total=len(unknown),
            unknown=tuple(map(group, unknown[:top] if top else unknown)),
            notes=(HIDDEN_CASTS,) if way.met.hides_casts and not recorded else (),
        )


def catching(snap: Snapshot, selection: Selection) -> Catching:
    """Prepare a selection's rules. Raises UsageError for reserved memory, which has no stacks."""
    if selection.measure == "reserved":
        raise UsageError("reserved memory has no categories; choose another --measure")
    return Catching(Grouper(snap, "stack", selection.rules, fold=selection.fold))


def _categories(grouper: Grouper, usage: Usage, there: list[int]) -> list[tuple[int, str, bool]]:
    """Return (group number, category, whether the rule comes from the configuration) for each rule.

    If categories were recorded, the rules are the configured ones, followed by each category that
    occurs.
    """
    rules = grouper.known.rules
    if grouper.snap.recorded is None:
        return [
            (number, rule.name, rule not in DEFAULT_RULES)
            for number, rule in enumerate(rules.rules)
        ]
    own = [(number, rule.name, True) for number, rule in enumerate(rules.own)]
    noted = sorted(name for name in there if name >= len(own))
    labels = [grouper.dimensions.label(usage, "category", name).text for name in noted]
    return [*own, *((name, label, False) for name, label in zip(noted, labels, strict=True))]
