"""Compare two snapshots by group, at their peaks or at another moment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from dataclasses import replace as replace_scope
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.comparing.categories import category_changes
from memreplay.analysis.comparing.records import (
    PHASES,
    CategoryChange,
    DiffRow,
    Phase,
    Side,
    Status,
)
from memreplay.analysis.comparing.rows import compared, folded, marked_as_guessed
from memreplay.analysis.comparing.sides import (
    PEAK,
    BaselineSide,
    ComparedSide,
    Scope,
    Sided,
    SnapshotSide,
    keep_common_frames,
    other_ranges,
)
from memreplay.analysis.groups.kinds import CategoriesSource
from memreplay.analysis.groups.ways import WAYS, ways_of
from memreplay.analysis.selecting.answering import as_snapshot, takes
from memreplay.analysis.selecting.choice import device_pairs, fitting_by
from memreplay.analysis.selecting.selection import OUTPUT, At, Selection
from memreplay.commands.diff.result import DeviceDiff, DiffReport, PhaseDiff
from memreplay.commands.peak.find import where_in
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.snapshot.model import By

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept
    from memreplay.snapshot.snapshot import Snapshot

__all__ = ["PEAK", "DiffOptions", "diff_report"]


class DiffOptions(Options, frozen=True):
    """Options for which moments to compare, and how to match rows."""

    at: At = None
    exact: Annotated[
        bool,
        Opt(
            "Match stacks only if they're equal line by line.",
            brief="Match stacks only if they're equal.",
        ),
    ] = False
    unchanged: Annotated[bool, Opt("Also show groups that didn't change.")] = False
    all_frames: Annotated[
        bool,
        Opt(
            "Show full stacks, with PyTorch, Python and C++ frames.",
            group=OUTPUT,
            brief="Show full stacks.",
        ),
    ] = False


@takes(selection=Selection, options=DiffOptions, without=("fold",))
def diff_report(
    base: Snapshot | BaselineSide, new: Snapshot, selection: Selection, options: DiffOptions
) -> DiffReport:
    """Return the changes from `base` to `new` on each common device. Each snapshot is compared at
    its own moment `at`.

    If there is no common device but each snapshot has exactly one, compare these two. The base may
    be a baseline, which has groups by stack at the peak of one measure.

    Rows that differ only in plumbing frames are merged unless `all_frames` is set. `exact` only
    matches identical stacks; `unchanged` keeps unchanged rows. `top` limits the rows (0: no limit);
    `device` is a device of the new snapshot. Raises UsageError if there is no device to compare, if
    one snapshot lacks the moment, or if a filter's pattern matches no frame in either.
    """
    new, when = as_snapshot(new), options.at or PEAK
    by, filters = fitting_by(selection.measure, selection.by), selection.filters
    if selection.device is not None:
        new.check_device(selection.device)
    after = SnapshotSide(new, replace(selection, by=by))
    before: ComparedSide
    source: CategoriesSource | None = None
    mixed = False
    if isinstance(base, BaselineSide):
        if by != "stack" or filters:
            raise UsageError(
                f"{base.file} is a baseline, which only has groups by stack and of all memory"
            )
        before = base
    else:
        before = theirs = SnapshotSide(base, replace(selection, by=by))
        if after.filtering is not None:
            # The code that a pattern matches may exist on one side only.
            after.filtering.check(before.filtering)
        source = _source(base, new, by)
        mixed = source is not None and (base.recorded is None) != (new.recorded is None)
        # Phases are always compared, regardless of the grouping key.
        theirs.guess = after.guess = None in (base.recorded, new.recorded)
    both = device_pairs(before.devices, after.devices)
    if not both and (before.devices or after.devices):
        raise UsageError(
            f"no device in common: {_listed(before)} in {before.file}, {_listed(after)} in"
            f" {after.file}"
        )
    kept: FramesKept = "all"
    fewer = ""
    if any(WAYS[way].of_stacks for way in ways_of(by)) and source != "recorded":
        kept, fewer = keep_common_frames(before, after)
    scope = Scope(selection.measure, when, pool=selection.pool, stream=selection.stream)
    fold = by == "stack" and not options.exact and not options.all_frames
    ranges = other_ranges(before, after)
    return DiffReport(
        base_file=before.file,
        new_file=after.file,
        measure=selection.measure,
        by=by,
        moment=when,
        exact=options.exact,
        filters=filters or None,
        groups_source=source,
        truncated=before.truncated or after.truncated,
        unknown_devices=_unknown(before, after) or UNSET,
        ranges_differ=ranges is not None,
        only_base=tuple(one for one in before.devices if one not in dict(both)),
        only_new=tuple(one for one in after.devices if one not in dict(both).values()),
        devices=tuple(
            _Pair(before, after, *pair, fold, selection.top, options).diff(scope)
            for pair in both
            if selection.device in (None, pair[1])
        ),
        ranges=ranges,
        all_frames=options.all_frames,
        mixed=mixed,
        stack_frames=kept,
        fewer=fewer,
    )


def _unknown(*sides: ComparedSide) -> tuple[int, ...]:
    found = {
        device
        for side in sides
        if isinstance(side, SnapshotSide)
        for device in side.snap.unknown_devices
    }
    return tuple(sorted(found))


def _source(base: Snapshot, new: Snapshot, by: By) -> CategoriesSource | None:
    """Return whether both sides' groups are recorded or guessed.

    If only one side has the recorder's notes, both are guessed. Return None for keys that don't
    need guessing.
    """
    if not any(WAYS[way].recorded for way in ways_of(by)):
        return None
    return "guessed" if None in (base.recorded, new.recorded) else "recorded"


def _listed(side: ComparedSide) -> str:
    return "device " + ", ".join(map(str, side.devices)) if side.devices else "none"


def _in_program(found: Side, side: ComparedSide, device: int) -> Side:
    """Add the moment's step, phase and annotation, as far as they're known."""
    found = replace(found, phase=side.phase_at(device, found.event_index))
    if not isinstance(side, SnapshotSide):
        return found
    annotations, step = where_in(side.snap, side.snap.replay(device), found.event_index)
    return replace(found, annotation=annotations[-1] if annotations else None, step=step)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Compares the groups that one device has on both sides."""

    before: ComparedSide
    after: ComparedSide
    base_device: int
    device: int
    fold: bool
    top: int
    options: DiffOptions

    def diff(self, scope: Scope) -> DeviceDiff:
        """Return the changes within the scope."""
        base, new = self.before.at(self.base_device, scope), self.after.at(self.device, scope)
        rows = self.rows(scope, base, new)
        statuses: Counter[Status] = Counter(row.status for row in rows)
        kept, shown = self.shown(rows)
        change = new.side.bytes - base.side.bytes
        sides = (
            _in_program(base.side, self.before, self.base_device),
            _in_program(new.side, self.after, self.device),
        )
        return DeviceDiff(
            device=self.device,
            base_device=self.base_device,
            measure=scope.measure,
            base_bytes=base.side.bytes,
            new_bytes=new.side.bytes,
            change_bytes=change,
            base=sides[0],
            new=sides[1],
            trusted=base.side.trusted and new.side.trusted,
            rows_total=len(kept),
            rest_change_bytes=change - sum(row.change_bytes for row in shown),
            statuses=dict(statuses),
            categories=self.categories(scope, base, new),
            phases=self.phases(scope, {sides[0].phase, sides[1].phase}),
            rows=tuple(shown),
        )

    def categories(self, scope: Scope, base: Sided, new: Sided) -> tuple[CategoryChange, ...]:
        """Return the changed categories."""
        sides = self.before, self.after
        if scope.measure == "reserved":
            return ()
        if not isinstance(sides[0], SnapshotSide) or not isinstance(sides[1], SnapshotSide):
            return ()
        devices = self.base_device, self.device
        return category_changes((sides[0], sides[1]), devices, scope, (base, new))

    def rows(self, scope: Scope, base: Sided, new: Sided) -> list[DiffRow]:
        """Return the matched groups of both sides."""
        rows = compared(base, new, exact=self.options.exact, trim=self.before.trimmed)
        if self.fold:
            rows = folded(rows)
        guessed = self.before.guessed(self.base_device, scope, base.side.event_index)
        guessed |= self.after.guessed(self.device, scope, new.side.event_index)
        return marked_as_guessed(rows, guessed)

    def shown(self, rows: list[DiffRow]) -> tuple[list[DiffRow], list[DiffRow]]:
        """Return the rows to count and, of these, the rows to show."""
        kept = [row for row in rows if self.options.unchanged or row.status != "same"]
        return kept, kept[: self.top] if self.top else kept

    def phases(self, scope: Scope, peaks: set[Phase | None]) -> tuple[PhaseDiff, ...]:
        """Return both sides' peaks in each phase. If the overall peaks are in different phases,
        include these phases' rows.
        """
        if scope.when != PEAK:
            return ()
        moved = len(peaks) > 1 and scope.measure != "reserved"
        found = (self.phase(scope, phase, moved and phase in peaks) for phase in PHASES)
        return tuple(filter(None, found))

    def phase(self, scope: Scope, phase: Phase, with_rows: bool) -> PhaseDiff | None:
        """Return both sides' peaks in one phase; None if neither side has the phase."""
        within = replace_scope(scope, phase=phase)
        base = self.before.level(self.base_device, within)
        new = self.after.level(self.device, within)
        if base is None and new is None:
            return None
        both = base is not None and new is not None
        found = PhaseDiff(
            phase=phase,
            base_bytes=None if base is None else base.bytes,
            new_bytes=None if new is None else new.bytes,
            change_bytes=new.bytes - base.bytes if base and new else None,
            base_event=None if base is None else base.event_index,
            new_event=None if new is None else new.event_index,
        )
        if not with_rows or not both:
            return found
        sided = self.before.at(self.base_device, within), self.after.at(self.device, within)
        kept, shown = self.shown(self.rows(within, *sided))
        rest = (found.change_bytes or 0) - sum(row.change_bytes for row in shown)
        return replace(found, rows_total=len(kept), rest_change_bytes=rest, rows=tuple(shown))
