"""Writes what was allocated as JSON, schema memreplay.allocations/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.allocations.result import (
    AllocationGroup,
    AllocationsReport,
    AllocationSums,
    DeviceAllocations,
    ValueClass,
)
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import group_json
from memreplay.render.strict_json import to_json
from memreplay.snapshot.model import By

SCHEMA = "memreplay.allocations/1"


def render_allocations_json(report: AllocationsReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "measure": report.measure,
            "by": report.by,
            "sort": report.sort,
            "temporary_threshold": report.threshold,
            "pool": None if report.pool is None else list(report.pool),
            "stream": report.stream,
            "filters": filters_json(report.filters),
            "truncated": report.truncated,
            "devices": [_device(device, report.by) for device in report.devices],
        },
        indent=2,
    )


def _device(found: DeviceAllocations, by: By) -> dict[str, object]:
    total = found.total
    seconds = (found.duration_us or 0) / 1e6
    us = found.lifetimes_us
    return {
        "device": found.device,
        "measure": found.measure,
        "exactness": found.exactness,
        "allocations": total.count,
        "allocated_bytes": total.bytes,
        "frees": total.count - total.live_count,
        **_sums(total),
        "min_bytes": found.min_bytes,
        "max_bytes": found.max_bytes,
        "median_bytes": found.median_bytes,
        "median_lifetime_events": found.median_lifetime_events,
        "median_lifetime_us": found.median_lifetime_us,
        "peak_bytes": found.peak_bytes,
        "peak_ratio": total.bytes / found.peak_bytes if found.peak_bytes else None,
        "new_segment_count": found.grown_count,
        "duration_us": found.duration_us,
        "allocations_per_s": total.count / seconds if seconds else None,
        "bytes_per_s": total.bytes / seconds if seconds else None,
        "baseline_count": found.baseline_count,
        "baseline_bytes": found.baseline_bytes,
        "baseline_freed_count": found.baseline_freed_count,
        "baseline_freed_bytes": found.baseline_freed_bytes,
        "first_event": found.first_event,
        "events": found.events,
        "trace_events": found.trace_events,
        "trusted": found.trusted,
        "reasons": list(found.reasons),
        "sizes": _classes(found.sizes, "bytes"),
        "lifetimes_events": _classes(found.lifetimes_events, "events"),
        "lifetimes_us": None if us is None else _classes(us, "us"),
        "untimed_count": found.untimed_count,
        "untimed_bytes": found.untimed_bytes,
        "groups_total": found.groups_total,
        "rest_bytes": found.rest.bytes,
        "rest_count": found.rest.count,
        "groups": [_group(one, by) for one in found.groups],
    }


def _classes(classes: tuple[ValueClass, ...], unit: str) -> list[dict[str, int]]:
    return [
        {f"min_{unit}": one.least, f"max_{unit}": one.most, "count": one.count, "bytes": one.bytes}
        for one in classes
    ]


def _group(one: AllocationGroup, by: By) -> dict[str, object]:
    found = group_json(one.group)
    if by == "pool":
        found["pool"] = None if one.pool is None else list(one.pool)
    elif by == "stream":
        found["stream"] = one.stream
    elif one.sizes is not None:
        found["min_bytes"], found["max_bytes"] = one.sizes
    return {**found, **_sums(one.sums)}


def _sums(sums: AllocationSums) -> dict[str, int | None]:
    return {
        "mean_bytes": sums.mean_bytes,
        "temporary_count": sums.temporary_count,
        "temporary_bytes": sums.temporary_bytes,
        "live_count": sums.live_count,
        "live_bytes": sums.live_bytes,
        "mean_lifetime_events": sums.mean_lifetime_events,
        "mean_lifetime_us": sums.mean_lifetime_us,
    }
