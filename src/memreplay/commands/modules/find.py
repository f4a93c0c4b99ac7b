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
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import When
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        import numpy as np

        self.recorded = recorded
        self.tree = ModuleTree()
        self.depth = depth
        category, phase, module = (
            np.append(recorded.kinds[:, at], np.uint32(len(names))).astype(np.int64)
            for at, names in enumerate((recorded.categories, recorded.phases, recorded.modules))
        )
        # Only add modules that ever had memory.
        nodes = np.zeros(len(recorded.modules) + 1, dtype=np.int64)
        for number in np.unique(module[:-1]).tolist():
            nodes[number] = self.tree.add(recorded.modules[number])
        columns = [COLUMN_OF.get(name, OTHER) for name in recorded.categories]
        passes = [PASSES.get(name, NEITHER) for name in recorded.phases]
        self.node: NDArray[np.int64] = nodes[module]
        self.column: NDArray[np.int64] = np.array([*columns, OTHER])[category]
        self.passed: NDArray[np.int64] = np.array([*passes, NEITHER])[phase]

    @property
    def unknown(self) -> int:
        """Number of the kind that means unknown."""
        return len(self.node) - 1

    def keys(self, usage: Usage, numbers: NDArray[np.int64]) -> _groups.Keys:
        """Group allocations by the number that `numbers` has for their kind."""
        import numpy as np

        of_kind = numbers.astype("u4")
        of_events, of_carried = (
            of_kind[np.minimum(kinds, self.unknown)]
            for kinds in (
                self.recorded.of_events(usage.replay),
                self.recorded.of_carried(usage.replay),
            )
        )
        return _groups.row_keys(usage.replay.native, of_events.data, of_carried.data)


def _device(
    snap: Snapshot, usage: Usage, noted: Noted, selection: Selection, options: ModulesOptions
) -> DeviceModules:
    """Return one device's live set at the moment, by module."""
    import numpy as np

    event, sort = resolve(snap, usage, options.at or PEAK), options.sort
    replay, tree = usage.replay, noted.tree
    keys = noted.keys(usage, np.arange(len(noted.node)))
    found, _, whole, count = keys.sums(usage.listed(event), usage.native, 0)
    own = np.zeros((len(tree), len(NAMES)), dtype=np.int64)
    unknown = 0
    for kind, _, n_bytes, _, _ in found:
        own[noted.node[kind], noted.column[kind]] += n_bytes
        unknown += n_bytes if kind == noted.unknown else 0
    live = tree.summed(own)
    most, when = highest(usage, noted)
    total = live.sum(axis=1)
    there = (total > 0) | most.any(axis=1)
    if noted.depth:
        there &= np.array(tree.depths) <= noted.depth
    large = {"total": total, "module": total, "peak-forward": most[:, 0]}
    large |= {"peak-backward": most[:, 1]}
    large |= {name.replace("_", "-"): live[:, at] for at, name in enumerate(NAMES)}
    nodes = np.flatnonzero(there[1:]) + 1
    # A module is never larger than its parent and comes after it when sorted, so parents are always
    # included.
    order = nodes[np.argsort(-large[sort][nodes], kind="stable")].tolist()
    chosen = order[: selection.top] if selection.top else order
    shown = tree.ordered(sorted(chosen) if sort == "module" else chosen)
    rows = tuple(
        ModuleBytes(
            module=tree.name(node),
            depth=tree.depths[node],
            **{f"{name}_bytes": int(live[node, at]) for at, name in enumerate(NAMES)},
            total_bytes=int(total[node]),
            own_bytes=int(own[node].sum()),
            peak_forward_bytes=int(most[node, FORWARD]),
            peak_forward_event=int(when[node, FORWARD]) if most[node, FORWARD] else None,
            peak_backward_bytes=int(most[node, BACKWARD]),
            peak_backward_event=int(when[node, BACKWARD]) if most[node, BACKWARD] else None,
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


def highest(usage: Usage, noted: Noted) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (bytes, event) of the peaks, as arrays of shape (nodes, passes).

    A peak covers what was allocated during the pass in a node and below it. Nodes at the same depth
    are disjoint, so each depth takes one scan of the events.
    """
    import numpy as np

    tree = noted.tree
    parents, depths = np.array(tree.parents), np.array(tree.depths)
    most = np.zeros((len(tree), 2), dtype=np.int64)
    when = np.zeros((len(tree), 2), dtype=np.int64)
    at = noted.node
    for depth in range(int(depths.max()), 0, -1):
        at = np.where(depths[at] > depth, parents[at], at)
        if noted.depth and depth > noted.depth:
            continue
        # Don't count allocations made directly in a parent module.
        wanted = (depths[at] == depth) & (noted.passed != NEITHER)
        groups, numbers = np.unique(
            np.where(wanted, at * 2 + noted.passed, -1), return_inverse=True
        )
        for name, _, n_bytes, event in usage.bests(noted.keys(usage, numbers.reshape(-1)), 0)[0]:
            group = int(groups[name])
            if group >= 0:
                most.flat[group], when.flat[group] = n_bytes, event
    return most, when
