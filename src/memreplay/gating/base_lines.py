"""Write a baseline as JSON for version control: one line per frame and per group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memreplay.render.record_json import plain
from memreplay.render.strict_json import to_json

if TYPE_CHECKING:
    from memreplay.analysis.comparing.baseline_record import Baseline


def render_baseline(baseline: Baseline) -> str:
    """Return one JSON object, in which a changed frame or group changes only one line.

    The output is deterministic.
    """
    found: dict[str, Any] = plain(baseline)  # type: ignore[assignment]
    frames, devices = found.pop("frames"), found.pop("devices")
    lines = [f" {_on_one(key)}: {_on_one(value)}," for key, value in found.items()]
    lines += [f' "frames": {_rows(frames, 1)},', f' "devices": {_nested(devices, 1)}']
    return "\n".join(["{", *lines, "}"])


def _nested(devices: list[dict[str, Any]], depth: int) -> str:
    """Format devices and peaks, one group per line."""
    pad = " " * depth
    parts = []
    for device in devices:
        peaks = []
        for peak in device.pop("peaks"):
            groups = _rows(peak.pop("groups"), depth + 2)
            peaks.append(f'{_on_one(peak)[:-1]}, "groups": {groups}}}')
        inner = f",\n{pad}  ".join(peaks)
        parts.append(f'{_on_one(device)[:-1]}, "peaks": [\n{pad}  {inner}\n{pad} ]}}')
    return "[\n" + pad + " " + f",\n{pad} ".join(parts) + f"\n{pad}]" if parts else "[]"


def _rows(rows: list[object], depth: int) -> str:
    if not rows:
        return "[]"
    pad = " " * depth
    return "[\n" + ",\n".join(f"{pad} {_on_one(row)}" for row in rows) + f"\n{pad}]"


def _on_one(value: object) -> str:
    return to_json(value, indent=None)
