"""What each rule of categories caught at a moment, and what none did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.categories.rules import DEFAULT_RULES, UNKNOWN
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.analysis.trust.trust import strict_verdict, verdict
from memreplay.commands.categories.result import CategoriesReport, Caught, DeviceCategories
from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.snapshot.model import Group, When

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

PEAK = When("peak", 1)
HIDDEN_CASTS = (
    "autocast ran, and the stacks are Python's alone: copies of weights that it made and the"
    ' backward pass keeps count as activations; record with stacks="all" to tell them apart'
)


def categories_report(
    snap: Snapshot,
    selection: Selection | None = None,
    *,
    when: When = PEAK,
    all_frames: bool = False,
    **choices: Unpack[Choices],
) -> CategoriesReport:
    """What each rule caught of each device's live set at the moment `when`.

    `top` cuts the stacks that no rule caught. Raises UsageError for reserved memory, which has no
    stacks, and for a moment that a device does not have.

    With `fold` stacks that differ in plumbing alone are one group. `all_frames` is for the report
    as text, which then shows whole stacks.
    """
    selection = selected(selection, choices)
    if selection.measure == "reserved":
        raise UsageError("reserved memory consists of segments, which have no categories")
    grouper = Grouper(snap, "stack", selection.rules, fold=selection.fold)
    usages = chosen_usages(snap, selection)
    return CategoriesReport(
        file=snap.file,
        measure=selection.measure,
        moment=when,
        devices=tuple(
            device_categories(
                snap, usage, resolve(snap, usage, when), grouper, selection.top, selection.strict
            )
            for usage in usages
        ),
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        all_frames=all_frames,
    )


def device_categories(
    snap: Snapshot, usage: Usage, event: int, grouper: Grouper, top: int, strict: bool = False
) -> DeviceCategories:
    """The live set of one device after one event, by rules."""
    replay = usage.replay
    dimensions = grouper.dimensions
    recorded = snap.recorded is not None
    of_rules = dimensions.keys(usage, "category") if recorded else dimensions.of_rules(usage)
    of_stacks = grouper.keys(usage)
    both = _groups.pair(of_rules, of_stacks)
    # A row a rule and stack, the largest first.
    found, _, whole, count = both.sums(usage.listed(event), usage.native, 0)
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
                rule=name + 1 if own or not recorded else None,
                category=category,
                own=own,
                bytes=held,
                count=sum(row[2] for row in mine),
                share=held / whole if whole else 0.0,
                largest=group(mine[0]) if mine else None,
            )
        )
    trust = (strict_verdict if strict else verdict)(snap, usage)
    return DeviceCategories(
        device=replay.device,
        measure=usage.measure,
        exactness=trust.exactness,
        event_index=event,
        time_us=replay.time_us(event),
        start_us=replay.origin_us,
        live_bytes=whole,
        live_count=count,
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(replay.device),
        rules=tuple(caught),
        unknown_bytes=sum(row[1] for row in unknown),
        unknown_count=sum(row[2] for row in unknown),
        unknown=tuple(map(group, unknown[:top] if top else unknown)),
        unknown_total=len(unknown),
        source="recorded" if recorded else "guessed",
        trusted=trust.trusted,
        backend=replay.backend.name,
        reasons=trust.reasons,
        notes=(HIDDEN_CASTS,) if dimensions.hides_casts and not recorded else (),
    )


def _categories(grouper: Grouper, usage: Usage, there: list[int]) -> list[tuple[int, str, bool]]:
    """(the number of a group, what it is called, whether the configuration has it): of each rule;
    where categories were recorded of each of these that there is, after the rules of one's own."""
    rules = grouper.dimensions.rules
    if grouper.snap.recorded is None:
        return [
            (number, rule.name, rule not in DEFAULT_RULES)
            for number, rule in enumerate(rules.rules)
        ]
    own = [(number, rule.name, True) for number, rule in enumerate(rules.own)]
    noted = sorted(name for name in there if name >= len(own))
    labels = [grouper.dimensions.label(usage, "category", name).text for name in noted]
    return [*own, *((name, label, False) for name, label in zip(noted, labels, strict=True))]
