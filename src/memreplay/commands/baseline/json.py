"""Writes a baseline as JSON, schema memreplay.baseline/1 (docs/json.md), fit to be committed."""

from __future__ import annotations

from memreplay.analysis.comparing.baseline_record import (
    SCHEMA,
    Baseline,
    BaselineDevice,
    BaselinePeak,
)
from memreplay.render.ranges import range_json
from memreplay.render.strict_json import to_json
from memreplay.snapshot.model import Frame


def render_baseline_json(baseline: Baseline) -> str:
    """One object, a line a frame and a peak's group, so that a change of one is a change of a line.

    Each frame stands in it once. The same baseline gives the same bytes.
    """
    frames: dict[Frame, int] = {}
    devices = [_device(device, frames) for device in baseline.devices]
    head: dict[str, object] = {
        "schema": SCHEMA,
        "file": baseline.file,
        "measure": baseline.measure,
        "rules": baseline.rules,
        "categories": list(baseline.categories),
    }
    if baseline.range is not None:
        head["range"] = range_json(baseline.range)
    lines = [f" {to_json(key, indent=None)}: {to_json(head[key], indent=None)}," for key in head]
    rows = [[frame.function, frame.file, frame.line] for frame in frames]
    lines += [f' "frames": {_rows(rows, 1)},', f' "devices": {_nested(devices, 1)}']
    return "\n".join(["{", *lines, "}"])


def _device(device: BaselineDevice, frames: dict[Frame, int]) -> dict[str, object]:
    return {
        "device": device.device,
        "reasons": {name: list(reasons) for name, reasons in device.reasons.items()},
        "peaks": [_peak(peak, frames) for peak in device.peaks],
    }


def _peak(peak: BaselinePeak, frames: dict[Frame, int]) -> dict[str, object]:
    return {
        "measure": peak.measure,
        "category": peak.category,
        "annotation": peak.annotation,
        "bytes": peak.bytes,
        "count": peak.count,
        "event_index": peak.event_index,
        "groups_total": peak.groups_total,
        "rest_bytes": peak.rest_bytes,
        "rest_count": peak.rest_count,
        "groups": [
            {
                "bytes": group.bytes,
                "count": group.count,
                "label": group.label,
                "user": bool(group.user),
                "frames": [frames.setdefault(frame, len(frames)) for frame in group.frames],
            }
            for group in peak.groups
        ],
    }


def _nested(devices: list[dict[str, object]], depth: int) -> str:
    """Devices and peaks as JSON, a group a line."""
    pad = " " * depth
    parts = []
    for device in devices:
        peaks = []
        for peak in device["peaks"]:  # type: ignore[attr-defined]
            head = {key: value for key, value in peak.items() if key != "groups"}
            text = to_json(head, indent=None)[:-1]
            peaks.append(f'{text}, "groups": {_rows(peak["groups"], depth + 2)}}}')
        head = {key: value for key, value in device.items() if key != "peaks"}
        text = to_json(head, indent=None)[:-1]
        inner = f",\n{pad}  ".join(peaks)
        parts.append(f'{text}, "peaks": [\n{pad}  {inner}\n{pad} ]}}')
    return "[\n" + pad + " " + f",\n{pad} ".join(parts) + f"\n{pad}]" if parts else "[]"


def _rows(rows: list[object] | list[list[object]], depth: int) -> str:
    if not rows:
        return "[]"
    pad = " " * depth
    return "[\n" + ",\n".join(f"{pad} {to_json(row, indent=None)}" for row in rows) + f"\n{pad}]"
