"""Check a snapshot against budgets: find broken limits, and the code that broke them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as replace_scope
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from memreplay.analysis.categories.rules import NOT_TOLD_APART, Rule
from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.comparing.records import PHASES, LimitKind
from memreplay.analysis.comparing.sides import (
    REST,
    BaselineSide,
    ComparedSide,
    Scope,
    SnapshotSide,
    keep_common_frames,
    missing_text,
    other_ranges,
    placed,
)
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import device_pairs
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.selecting.sizes import share_of
from memreplay.analysis.trust.trust import EVENTS_LOST_BEFORE, REMARKS, UNSEEN
from memreplay.declared import Opt
from memreplay.errors import UsageError
from memreplay.gating.messages import NOTHING_RESERVED
from memreplay.gating.result import Cause, Finding, GatedFile, Outcome, PhasePeak
from memreplay.render.trust import PEAK_MAY_BE_MISSING, seen_text
from memreplay.render.units import size
from memreplay.snapshot.model import Coded, Group
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.analysis.comparing.records import DiffRow, Phase
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.snapshot import Snapshot

CAUSES = 3
_OF_PEAKS = ("max_peak", "max_growth", "max_growth_bytes", "max_reserved")
# Limits on a maximum. If part of a run exceeds one of these, so does the whole run.
_AT_MOST = (*_OF_PEAKS, "forbid_oom")


def doubts(reasons: Iterable[str], *, strict: bool = False) -> tuple[str, ...]:
    """Return the reasons that make limits undecidable.

    Informational reasons are left out. Unless `strict`, so are the reasons for an incomplete
    recording, because numbers are exact for the recorded part, and each limit decides whether
    that's enough.
    """
    fine = REMARKS if strict else REMARKS | UNSEEN
    return tuple(reason for reason in reasons if reason not in fine)


class Terms(Record, frozen=True):
    """How files are judged, independently of budgets."""

    rules: tuple[Rule, ...] | None = None
    """Category rules; None means the default rules."""
    allow_untrusted: Annotated[
        bool, Opt("Check snapshots even if they contradict themselves.", rare=True)
    ] = False
    """Whether to judge a snapshot that contradicts itself."""
    strict: Annotated[
        bool,
        Opt(
            "Check the numbers against everything in the file, and fail if the recorder's buffer"
            " overflowed.",
            brief="Fail if the numbers aren't trustworthy.",
        ),
    ] = False
    """Whether to fail if the recorder's buffer overflowed."""

    @property
    def selection(self) -> Selection:
        """The selection for each snapshot."""
        return Selection(rules=self.rules, strict=self.strict)


DEFAULT_TERMS = Terms()


@takes(terms=Terms)
def gate_file(
    snap: Snapshot,
    budgets: Sequence[Budget],
    base: ComparedSide | None = None,
    terms: Terms = DEFAULT_TERMS,
) -> GatedFile:
    """Check every limit in every budget, on each of the budget's devices.

    Raises UsageError if a budget names something the snapshot lacks (a device, a category, an
    annotation), or limits growth without a base.
    """
    return _Gate(snap, base, terms).result(budgets)


def explain_excess(
    base: Snapshot, new: Snapshot, finding: Finding, terms: Terms
) -> tuple[Cause, ...]:
    """Return the call sites through which `new` exceeds `base` within a finding's scope.

    Each snapshot was opened for one device.
    """
    side = SnapshotSide(base, terms.selection)
    scope = scope_of(finding)
    (device,) = base.devices
    level = side.level(device, scope)
    gate = _Gate(new, side, replace(terms, allow_untrusted=True))
    return gate.causes(finding.device, scope, None if level is None else level.bytes)


def scope_of(finding: Finding) -> Scope:
    """Return the part of a device's memory that a finding covers."""
    return Scope(
        finding.measure,
        category=finding.category,
        annotation=finding.annotation,
        phase=finding.phase,
    )


class _Gate:
    def __init__(self, snap: Snapshot, base: ComparedSide | None, terms: Terms) -> None:
        self.snap = snap
        self.base = base
        self.side = SnapshotSide(snap, terms.selection)
        self.frames: FramesKept = "all"
        self.fewer = ""
        if base is not None:
            self.frames, self.fewer = keep_common_frames(base, self.side)
        self.allow_untrusted = terms.allow_untrusted
        self.strict = terms.strict
        self.used: dict[tuple[bool, int, MeasureName], None] = {}

    def result(self, budgets: Sequence[Budget]) -> GatedFile:
        findings = [
            replace(self.judged(budget, kind, device, phase), budget=number)
            for number, budget in enumerate(budgets)
            for device in self.devices(budget)
            for kind in budget.limits
            for phase in self.phases(budget, device)
        ]
        if findings and all(one.outcome == "skipped" for one in findings):
            # Only limits that were judged can pass.
            findings = [replace(one, outcome="not_judged") for one in findings]
        # Don't repeat the reason why a limit couldn't be judged.
        told = frozenset(reason for one in findings for reason in one.reasons)
        trust = [self.trust(*one, told) for one in self.used]
        overflowed = [
            device
            for of_base, device, measure in self.used
            if not of_base
            and EVENTS_LOST_BEFORE.intersection(self.side.verdict(device, measure).reasons)
        ]
        return GatedFile(
            file=self.snap.file,
            base_file=None if self.base is None else self.base.file,
            passed=not any(one.failed for one in (*findings, *trust)),
            overflowed_devices=tuple(dict.fromkeys(overflowed)),
            phases=tuple(self.phase_peaks(findings)),
            findings=(*findings, *trust),
            rules_changed=self.rules_changed(budgets),
            frames=self.frames,
            fewer=self.fewer,
            ranges=None if self.base is None else other_ranges(self.base, self.side),
        )

    def phase_peaks(self, findings: Sequence[Finding]) -> Iterator[PhasePeak]:
        """Yield the peak in each phase, for limits on the whole run.

        Even if the whole run didn't grow, an earlier phase may have.
        """
        whole = dict.fromkeys(
            (one.device, one.measure)
            for one in findings
            if one.actual_bytes is not None
            and one.kind in _OF_PEAKS
            and one.category is one.annotation is None
        )
        for device, measure in whole:
            partner = self.partner(device)
            for phase in PHASES:
                scope = Scope(measure, phase=phase)
                level = self.side.level(device, scope)
                if level is None:
                    continue
                before = None
                if self.base is not None and partner is not None:
                    before = self.base.level(partner, scope)
                yield PhasePeak(
                    device=device,
                    measure=measure,
                    phase=phase,
                    bytes=level.bytes,
                    event_index=level.event_index,
                    base_bytes=None if before is None else before.bytes,
                    change_bytes=None if before is None else level.bytes - before.bytes,
                )

    def rules_changed(self, budgets: Sequence[Budget]) -> bool:
        """Return whether a category's budget uses a base with other category rules."""
        if not isinstance(self.base, BaselineSide):
            return False
        if all(budget.category is None for budget in budgets):
            return False
        from memreplay.analysis.comparing.baseline import fingerprint

        return self.base.baseline.rules != fingerprint(self.side.rules)

    def devices(self, budget: Budget) -> tuple[int, ...]:
        """Return a budget's devices."""
        there = (*self.side.devices, *self.snap.unknown_devices)
        if not there:
            raise UsageError("the file has neither events nor segments: nothing was recorded")
        if budget.device is None:
            return there
        if budget.device not in there:
            listed = ", ".join(map(str, there))
            raise UsageError(
                f"{budget.where} is for device {budget.device}, which the file doesn't have;"
                f" it has {listed}"
            )
        return (budget.device,)

    def partner(self, device: int) -> int | None:
        """Return the base's device with which to compare, as for a diff; None if there is none."""
        if self.base is None:
            return None
        pairs = device_pairs(self.base.devices, self.side.devices)
        return next((base for base, new in pairs if new == device), None)

    def phases(self, budget: Budget, device: int) -> tuple[Phase | None, ...]:
        """Return a budget's phases. "each" means None (the whole run) and every phase found on the
        device.
        """
        if budget.phase != "each":
            return budget.phases
        scope = Scope(budget.measure, category=budget.category)
        there = [
            phase
            for phase in PHASES
            if self.side.level(device, replace_scope(scope, phase=phase)) is not None
        ]
        if not there and self.snap.replay(device).events:
            raise UsageError(
                f"{budget.where} is for each phase, but the stacks of device {device} show no"
                " forward pass, backward pass or optimizer step"
            )
        return (None, *there)

    def judged(
        self, budget: Budget, kind: LimitKind, device: int, phase: Phase | None = None
    ) -> Finding:
        """Check one limit on one device if enough was recorded."""
        found = self.held_against(budget, kind, device, phase)
        if (
            found.measure == "reserved"
            and found.outcome in ("passed", "failed")
            and not self.snap.replay(device).shows_reserved
        ):
            reasons = self.side.verdict(device, "reserved").reasons
            return replace(
                found,
                outcome="not_judged",
                actual_bytes=None,
                reasons=reasons,
                detail=NOTHING_RESERVED,
            )
        if self.allow_untrusted or found.outcome == "skipped":
            return found
        if kind == "forbid_leaks":
            return found  # growth per step is visible even if only some of the steps were recorded
        partner = self.partner(device) if found.kind in ("max_growth", "max_growth_bytes") else None
        if self.base is not None and partner is not None:
            reasons = unseen(self.base.verdict(partner, found.measure).reasons)
            if reasons:
                detail = unseen_text("the base", reasons, kind)
                return replace(found, outcome="not_judged", reasons=reasons, detail=detail)
        reasons = unseen(self.side.verdict(device, found.measure).reasons)
        if not reasons or (found.outcome == "failed" and kind in _AT_MOST):
            return found
        detail = unseen_text("the snapshot", reasons, kind, self.snap.trace_events(device))
        return replace(found, outcome="not_judged", reasons=reasons, detail=detail)

    def held_against(
        self, budget: Budget, kind: LimitKind, device: int, phase: Phase | None = None
    ) -> Finding:
        """Check one limit on one device."""
        start = Finding(
            rule=budget.name or kind.replace("_", "-"),
            kind=kind,
            outcome="passed",
            device=device,
            measure=budget.measure,
            category=budget.category,
            annotation=budget.annotation,
            phase=phase,
        )
        if device in self.snap.unknown_devices:
            detail = "the file is cut off before its trace"
            return replace(start, outcome="not_judged", detail=detail)
        if kind == "max_fragmentation":
            return self.fragmentation(start, budget)
        if kind == "forbid_leaks":
            return self.leaks(start)
        if kind == "forbid_oom":
            return self.ooms(start)
        if kind == "max_spread":  # spread.py judges it
            return replace(
                self.level(start, budget),
                outcome="not_judged",
                limit_share=budget.max_spread,
                detail="it needs several files",
            )
        if kind == "max_reserved":
            start = replace(start, measure="reserved")
        return self.peak(start, budget, kind)

    # ---- peaks and growth

    def peak(self, start: Finding, budget: Budget, kind: LimitKind) -> Finding:
        scope = scope_of(start)
        found = self.level(start, budget)
        partner = self.partner(start.device)
        base = None
        if self.base is not None and partner is not None:
            before = self.base.level(partner, scope)
            base = None if before is None else before.bytes
        found = replace(found, base_bytes=base)
        if kind in ("max_growth", "max_growth_bytes"):
            if self.base is None:
                raise UsageError(f"{budget.where} limits growth; give the base with --base")
            if not device_pairs(self.base.devices, self.side.devices):
                raise UsageError(
                    f"{budget.where} limits growth, but {self.base.file} has no device in common"
                )
            if base is None:
                lacks = "device" if partner is None else missing_text(scope)
                detail = f"the base has no such {lacks}; if it's new, save the base again"
                named = budget.phase != "each" and found.actual_bytes
                outcome: Outcome = "not_judged" if named else "skipped"
                return replace(found, outcome=outcome, detail=detail)
            assert partner is not None
            self.used[True, partner, start.measure] = None
            if kind == "max_growth":
                assert budget.max_growth is not None
                limit = base + share_of(base, budget.max_growth)
                found = replace(found, limit_share=budget.max_growth)
            else:
                assert budget.max_growth_bytes is not None
                limit = base + budget.max_growth_bytes
        else:
            given = budget.max_reserved if kind == "max_reserved" else budget.max_peak
            assert given is not None
            limit = given
        found = replace(found, limit_bytes=limit)
        if (found.actual_bytes or 0) <= limit:
            return found
        causes = self.causes(start.device, scope, base)
        return self.with_category(replace(found, outcome="failed", causes=causes), scope, partner)

    def with_category(self, found: Finding, scope: Scope, partner: int | None) -> Finding:
        """Add to a failed peak the category that grew most since the base."""
        if self.base is None or partner is None or found.base_bytes is None:
            return found
        base = self.base.categories(partner, scope)
        new = self.side.categories(found.device, scope)
        if base is None or new is None or base.get(NOT_TOLD_APART) != new.get(NOT_TOLD_APART):
            return found  # only one side classifies carried-over blocks
        name = max(new, key=lambda one: new[one] - base.get(one, 0), default="")
        grown = new.get(name, 0) - base.get(name, 0)
        if grown <= 0:
            return found
        usage = self.side.usage(found.device, scope)
        groups = self.side.grouper("category,line").groups(usage, found.event_index or 0, 0)[0]
        of_it = [one for one in groups if one.of[0].text == name]
        return replace(
            found,
            grown_category=name,
            grown_category_bytes=grown,
            grown_category_cause=_cause_of_line(of_it[0]) if of_it else None,
        )

    def level(self, start: Finding, budget: Budget) -> Finding:
        """Measure the peak that a limit is about. Raises UsageError for an unknown annotation."""
        level = self.side.level(start.device, scope_of(start))
        if level is None:
            part = missing_text(scope_of(start))
            raise UsageError(
                f"{budget.where} is for {'the ' if start.phase else ''}{part}, which device"
                f" {start.device} doesn't have"
            )
        self.used[False, start.device, start.measure] = None
        guessed = self.side.guessed(start.device, scope_of(start), level.event_index)
        return replace(
            start,
            actual_bytes=level.bytes,
            event_index=level.event_index,
            guessed=start.category is not None and bool(guessed),
        )

    def causes(self, device: int, scope: Scope, base_bytes: int | None) -> tuple[Cause, ...]:
        """Return the lines that grew most since the base or, without a base, the largest lines.

        If the base is a snapshot, only count its groups that a baseline would also have.
        """
        if scope.measure == "reserved":
            return ()
        new = self.side.at(device, scope)
        partner = self.partner(device)
        if self.base is not None and partner is not None and base_bytes is not None:
            try:
                before = self.base.at(partner, scope)
            except UsageError:
                before = None  # the baseline has this peak, but no groups for it
            if before is not None and new.side.bytes > before.side.bytes:
                # Imported late, because limits that pass need no rows.
                from memreplay.analysis.comparing.baseline import as_kept
                from memreplay.analysis.comparing.rows import by_line, compared

                if not self.base.trimmed:
                    before = as_kept(before, scope)
                rows = by_line(compared(before, new, trim=True))
                grown = [row for row in rows if row.change_bytes > 0 and row.label != REST]
                if grown:
                    return _first([_cause_of_row(row) for row in grown])
        return _first(_by_line([_cause(group, group.bytes) for group in new.groups]))

    # ---- the others

    def fragmentation(self, start: Finding, budget: Budget) -> Finding:
        """Measure how far peak reserved is above peak active."""
        assert budget.max_fragmentation is not None
        reserved = self.side.usage(start.device, Scope("reserved")).peak
        measures: tuple[MeasureName, ...] = ("reserved", "active")
        self.used |= dict.fromkeys((False, start.device, measure) for measure in measures)
        unused = unused_bytes(self.snap.replay(start.device))
        limit = share_of(reserved.bytes, budget.max_fragmentation)
        return replace(
            start,
            measure="reserved",
            outcome="failed" if unused > limit else "passed",
            limit_bytes=limit,
            limit_share=budget.max_fragmentation,
            actual_bytes=unused,
            reserved_bytes=reserved.bytes,
            event_index=reserved.event_index,
        )

    def leaks(self, start: Finding) -> Finding:
        """Measure growth from step to step. Can't be decided without steps."""
        from memreplay.analysis.leaks.judging import device_leaks
        from memreplay.analysis.leaks.records import DOUBTS
        from memreplay.analysis.selecting.selection import Selection

        if not self.snap.replay(start.device).events and any(
            self.snap.replay(device).events for device in self.side.devices
        ):
            # The device was recorded but never used.
            return replace(start, outcome="skipped", detail="the device has no events")
        usage = self.side.usage(start.device, Scope(start.measure))
        found = device_leaks(self.snap, usage, Selection(top=CAUSES))
        if not found.judged or found.by_windows:
            why = found.not_judged_reason or "no steps were found"
            why = f"{why.partition(';')[0]} (memreplay leaks says more)"
            return replace(start, outcome="not_judged", detail=why)
        rate = found.leak_bytes_per_step or found.whole_bytes_per_step
        if found.unless is not None:
            doubt = DOUBTS[found.unless]
            why = f"memory grows by {size(rate)} a step: {doubt.words}; {doubt.remedy}"
            why += " (memreplay leaks says more)"
            return replace(start, outcome="not_judged", detail=why)
        self.used[False, start.device, start.measure] = None
        return replace(
            start,
            outcome="failed" if found.leaks_total or found.whole_bytes_per_step else "passed",
            limit_bytes=0,
            actual_bytes=rate,
            count=found.step_count,
            causes=tuple(_cause(one, one.bytes_per_step) for one in found.leaks),
        )

    def ooms(self, start: Finding) -> Finding:
        """Count failed requests; report the first."""
        replay = self.snap.replay(start.device)
        events = replay.events_of("oom")
        # The missing part may contain a failed request.
        if "truncated" in self.side.verdict(start.device, "requested").reasons:
            self.used[False, start.device, "requested"] = None
        if not events:
            return replace(start, limit_bytes=0, actual_bytes=0, count=0)
        request, stack = replay.request_of(events[0])
        grouper = self.side.grouper()
        usage = self.side.usage(start.device, Scope("requested"))
        name = grouper.stack_name(stack, carried=False)
        return replace(
            start,
            outcome="failed",
            limit_bytes=0,
            actual_bytes=request,
            event_index=events[0],
            count=len(events),
            causes=(_cause(grouper.stack_group(usage, name, request, 1, 0.0), request),),
        )

    def trust(
        self, of_base: bool, device: int, measure: MeasureName, told: frozenset[str]
    ) -> Finding:
        """Return whether the numbers are trustworthy."""
        side = self.base if of_base else self.side
        assert side is not None
        strict = self.strict or self.allow_untrusted
        reasons = side.verdict(device, measure).reasons
        found = tuple(one for one in doubts(reasons, strict=strict) if one not in told)
        return Finding(
            rule="trust",
            kind="trust",
            outcome="passed" if not found else "skipped" if self.allow_untrusted else "failed",
            device=device,
            measure=measure,
            reasons=found,
            of_base=of_base,
            detail="--allow-untrusted" if found and self.allow_untrusted else "",
        )


def unseen(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the reasons that say that part of the run wasn't recorded."""
    return tuple(reason for reason in reasons if reason in UNSEEN)


def unseen_text(whose: str, reasons: Iterable[str], kind: LimitKind, events: int = 0) -> str:
    """Explain why a limit can't be judged on an incomplete recording."""
    seen, why = seen_text(reasons, events)
    missing = "an earlier failure may be missing" if kind == "forbid_oom" else PEAK_MAY_BE_MISSING
    return f"{whose} shows {seen} only: {why}, so {missing}"


def _first(causes: list[Cause]) -> tuple[Cause, ...]:
    """Return the largest cause and, if it has no location, also the largest cause that has one."""
    kept = causes[:CAUSES]
    if not any(cause.file for cause in kept):
        kept += [cause for cause in causes[CAUSES:] if cause.file][:1]
    return tuple(kept)


def _by_line(causes: list[Cause]) -> list[Cause]:
    """Merge the causes on the same line, largest first."""
    found: dict[tuple[str, ...], Cause] = {}
    for one in causes:
        key = (one.function, one.file, str(one.line)) if one.file else (one.label,)
        before = found.get(key)
        found[key] = one if before is None else replace(before, bytes=before.bytes + one.bytes)
    return sorted(found.values(), key=lambda one: -one.bytes)


def _cause_of_line(group: Group) -> Cause:
    """Return the line that a group (by category and line) belongs to."""
    line = group.of[1]
    return _cause(Coded(label=line.text, frames=line.frames, user=line.user), group.bytes)


def _cause(one: Coded, n_bytes: int) -> Cause:
    if (frame := placed(one)) is None:
        return Cause(one.label, n_bytes)
    name = name_of_stack(one.frames, one.user)
    # Use the recorded file name, unless the frame makes clear that the file can't be opened.
    file = frame.file if name.file else ""
    return Cause(one.label, n_bytes, None, name.function, file, name.line)


def _cause_of_row(row: DiffRow) -> Cause:
    cause = _cause(Coded(label=row.label, frames=row.frames, user=row.user), row.new_bytes)
    return replace(cause, change_bytes=row.change_bytes)
