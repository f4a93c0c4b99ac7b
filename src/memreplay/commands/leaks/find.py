"""Report on code whose memory grows from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.leaks.judging import LeaksOptions, device_leaks
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.leaks.result import LeaksReport
from memreplay.errors import NothingToTellError, UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot


@takes(
    selection=Selection,
    options=LeaksOptions,
    without=("fold", "only_carried_over", "no_carried_over"),
)
def leaks_report(snap: Snapshot, selection: Selection, options: LeaksOptions) -> LeaksReport:
    """Return each device's leaks (docs/leaks.md has the rule).

    Steps are the annotations named `annotation` (names are compared up to a #), or ranges of
    `period` events; by default, they're found automatically (docs/steps.md). With `windows`, that
    many equal parts of the trace are used instead, as for files without steps. Filters don't change
    steps. `by`: the kind of groups to judge. `total_memory`: the device's memory in bytes.
    Allocations still live after `older_than` steps count as old; growth below `min_growth` bytes
    per step is ignored. A device with fewer than 5 steps isn't judged. Raises UsageError for
    reserved memory, and NothingToTellError if no device has steps.
    """
    by = selection.by or "stack"
    if selection.measure == "reserved":
        raise UsageError(
            "leaks can't be found in reserved memory, because segments have no stacks;"
            " choose another --measure"
        )
    if options.windows is not None and options.given:
        raise UsageError("windows replace steps: leave out --step annotation and --step period")
    grouper = Grouper(snap, by, selection.rules)
    devices = [
        device_leaks(snap, whole, selection, options, grouper)
        for whole in chosen_usages(snap, replace(selection, filters=None))
    ]
    if not any(device.step_source for device in devices):
        empty = "the file has neither events nor segments"
        why = devices[0].not_judged_reason if devices else empty
        raise (UsageError if options.given else NothingToTellError)(
            f"can't look for leaks: {why}",
            brief=devices[0].not_judged_brief if devices else empty,
        )
    return LeaksReport(
        file=snap.file,
        measure=selection.measure,
        by=by,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        older_than_steps=options.older_than,
        min_growth_bytes=options.min_growth,
        leaking=any(device.grows and device.unless is None for device in devices),
        judged=any(device.judged for device in devices),
        devices=tuple(devices),
    )
