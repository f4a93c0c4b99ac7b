"""Compute each module's memory at a moment, and its peaks in the forward and backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import At, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.modules.result import DeviceModules, ModuleBytes, ModulesReport, ModulesSort
from memreplay.commands.modules.tree import NO_MODULE, ModuleTree
from memreplay.declared import Opt, Options
from memreplay.engine.query import _groups
from memreplay.engine.query._vectors import chosen, counting, joined, vector
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import When
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.recorded import Recorded
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

PEAK = When("peak", 1)
# Columns, with the recorded categories that each contains. All other memory is in the last column.
COLUMNS: dict[str, tuple[str, ...]] = {
    "parameters": ("parameters", "unsharded parameters"),
    "buffers": ("buffers",),
    "gradients": ("gradients", "unsharded gradients"),
    "optimizer_state": ("optimizer state",),
    "inputs": ("inputs",),
    "activations": ("activations",),
    "temporary": ("temporary",),
    "autograd_detail": ("autograd detail",),
    "communication": ("communication",),
    "other": (),
}
NAMES = tuple(COLUMNS)
COLUMN_OF = {name: at for at, names in enumerate(COLUMNS.values()) for name in names}
OTHER = len(COLUMNS) - 1
FORWARD, BACKWARD, NEITHER = range(3)
PASSES = {"forward": FORWARD, "backward": BACKWARD, "recomputation": BACKWARD}
NOT_RECORDED = (
    "the file doesn't say which module each allocation belongs to; record with memreplay.record"
    " (see memreplay help recording); memreplay peak --by module guesses it from stacks"
)


class ModulesOptions(Options, frozen=True):
    """Options for which modules to show, their order, and the moment."""

    at: At = None
    """The moment; None for the peak."""
    depth: Annotated[
        int,
        Opt(
            "List modules down to this depth: 1 for whole models, 0 for all levels.",
            "N",
            least=0,
            brief="List modules down to this depth; 0 for all.",
        ),
    ] = 0
    sort: Annotated[
        ModulesSort,
        Opt(
            "Sort modules by total, by one column or by their own peak, or keep the model's order."
            " --top keeps the first N.",
            "COLUMN",
            brief="Sort by total, parameters, gradients, activations, …",
        ),
    ] = "total"


@takes(selection=Selection, options=ModulesOptions, without=("by", "rules", "fold"))
def modules_report(snap: Snapshot, selection: Selection, options: ModulesOptions) -> ModulesReport:
    """Return each device's live set at the moment `at`, by module.

    `depth` and `top` limit the modules, and `sort` orders them; `by` and `rules` don't apply.
    Raises NothingToTellError for a snapshot without recorded modules. Raises UsageError for
    reserved memory, which doesn't belong to modules, and for a moment that a device lacks.
    """
    when = options.at or PEAK
    if selection.measure == "reserved":
        raise UsageError("reserved memory has no modules; choose another --measure")
    if selection.device is not None:
        snap.check_device(selection.device)
    if snap.recorded is None:
        flaw = snap.notes_flaw or snap.recorded_flaw
        raise NothingToTellError(
            f"the recorder's notes can't be used: {flaw}" if flaw else NOT_RECORDED
        )
    noted = Noted(snap.recorded, options.depth)
    return ModulesReport(
        file=snap.file,
        measure=selection.measure,
        moment=when,
        depth=options.depth,
        sort=options.sort,
        devices=tuple(
            _device(snap, usage, noted, selection, options)
            for usage in chosen_usages(snap, selection)
        ),
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
    )


class Noted:
    """The recorder's notes, by node of the module tree. A kind is a combination of node, column and
    pass; the last kind means unknown.
    """

    def __init__(self, recorded: Recorded, depth: int) -> None:
        self.recorded = recorded
        self.tree = ModuleTree()
        self.depth = depth
        category, phase, module = (
            joined([of_kind, [len(names)]])
            for of_kind, names in zip(
                recorded.kinds,
                (recorded.categories, recorded.phases, recorded.modules),
                strict=True,
            )
        )
        # Only add modules that ever had memory.
        nodes = [0] * (len(recorded.modules) + 1)
        for number in module[:-1].distinct():
            nodes[number] = self.tree.add(recorded.modules[number])
        columns = [COLUMN_OF.get(name, OTHER) for name in recorded.categories]
        passes = [PASSES.get(name, NEITHER) for name in recorded.phases]
        self.node = vector(nodes)[module]
        self.column = vector([*columns, OTHER])[category]
        self.passed = vector([*passes, NEITHER])[phase]

    @property
    def unknown(self) -> int:
        """Number of the kind that means unknown."""
        return len(self.node) - 1

    def keys(self, usage: Usage, numbers: Vector) -> _groups.Keys:
        """Group allocations by the number that `numbers` has for their kind."""
        of_kind = numbers.as_format("I")
        of_events, of_carried = (
            of_kind[kinds.lower(self.unknown)]
            for kinds in (
                self.recorded.of_events(usage.replay),
                self.recorded.of_carried(usage.replay),
            )
        )
        return _groups.row_keys(usage.replay.native, of_events, of_carried)


def _device(
    snap: Snapshot, usage: Usage, noted: Noted, selection: Selection, options: ModulesOptions
) -> DeviceModules:
    """Return one device's live set at the moment, by module."""
    event, sort = resolve(snap, usage, options.at or PEAK), options.sort
    replay, tree = usage.replay, noted.tree
    keys = noted.keys(usage, counting(len(noted.node)))
    found, _, whole, count = keys.sums(usage.listed(event), usage.native, 0)
    own = [[0] * len(NAMES) for _ in range(len(tree))]
    unknown = 0
    for kind, _, n_bytes, _, _ in found:
        own[noted.node[kind]][noted.column[kind]] += n_bytes
        unknown += n_bytes if kind == noted.unknown else 0
    live = tree.summed(own)
    most, when = highest(usage, noted)
    total = list(map(sum, live))
    there = [
        (total[node] > 0 or any(most[node])) and (not noted.depth or depth <= noted.depth)
        for node, depth in enumerate(tree.depths)
    ]
    large = {"total": total, "module": total}
    large |= {"peak-forward": [one[FORWARD] for one in most]}
    large |= {"peak-backward": [one[BACKWARD] for one in most]}
    large |= {name.replace("_", "-"): [one[at] for one in live] for at, name in enumerate(NAMES)}
    nodes = [node for node in range(1, len(tree)) if there[node]]
    # A module is never larger than its parent and comes after it when sorted, so parents are always
    # included.
    order = sorted(nodes, key=lambda node: -large[sort][node])
    chosen = order[: selection.top] if selection.top else order
    shown = tree.ordered(sorted(chosen) if sort == "module" else chosen)
    rows = tuple(
        ModuleBytes(
            module=tree.name(node),
            depth=tree.depths[node],
            **{f"{name}_bytes": live[node][at] for at, name in enumerate(NAMES)},
            total_bytes=total[node],
            own_bytes=sum(own[node]),
            peak_forward_bytes=most[node][FORWARD],
            peak_forward_event=when[node][FORWARD] if most[node][FORWARD] else None,
            peak_backward_bytes=most[node][BACKWARD],
            peak_backward_event=when[node][BACKWARD] if most[node][BACKWARD] else None,
        )
        for node in (*shown, *([NO_MODULE] if there[NO_MODULE] else []))
    )
    trust = verdict(snap, usage, strict=selection.strict)
    facts = device_facts(snap, replay, trust)
    return DeviceModules(
        **inlined(DeviceModules, replace(facts, start_us=replay.origin_us)),
        measure=usage.measure,
        event_index=event,
        time_us=replay.time_us(event),
        live_bytes=whole,
        live_count=count,
        unknown_bytes=unknown,
        modules_total=len(nodes),
        modules=rows,
    )


def highest(usage: Usage, noted: Noted) -> tuple[list[list[int]], list[list[int]]]:
    """Return (bytes, event) of the peaks, with a row per node and a column per pass.

    A peak covers what was allocated during the pass in a node and below it. Nodes of one depth are
    disjoint, so each depth takes one scan of the events.
    """
    tree = noted.tree
    parents, depths = vector(tree.parents), vector(tree.depths)
    most = [[0, 0] for _ in range(len(tree))]
    when = [[0, 0] for _ in range(len(tree))]
    at = noted.node
    for depth in range(depths.max(), 0, -1):
        at = chosen(depths[at] > depth, parents[at], at)
        if noted.depth and depth > noted.depth:
            continue
        # Don't count allocations made directly in a parent module.
        wanted = (depths[at] == depth) & (noted.passed != NEITHER)
        groups, numbers = chosen(wanted, at * 2 + noted.passed, -1).numbered()
        for name, _, n_bytes, event in usage.bests(noted.keys(usage, numbers), 0)[0]:
            node, passed = divmod(groups[name], 2)
            if node >= 0:
                most[node][passed], when[node][passed] = n_bytes, event
    return most, when
