"""Write stacks as a speedscope file: one profile per device, weighted by bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.export.viewers.stack_names import has_place, profile_name
from memreplay.render.strict_json import to_json

if TYPE_CHECKING:
    from memreplay.export.viewers.records import DeviceStacks, StacksReport
    from memreplay.snapshot.model import Frame

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render_speedscope(report: StacksReport) -> bytes:
    """Return the file's content. All devices share the frames."""
    found = {
        "$schema": SCHEMA,
        "exporter": "memreplay",
        "name": report.file,
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in report.frames]},
        "profiles": [_profile(report, device) for device in report.devices],
    }
    return to_json(found, indent=None).encode() + b"\n"


def _frame(frame: Frame) -> dict[str, object]:
    found: dict[str, object] = {"name": frame.function or "(no name)"}
    if frame.file and has_place(frame):
        found["file"] = frame.file
    if frame.line > 0:
        found["line"] = frame.line
    return found


def _profile(report: StacksReport, device: DeviceStacks) -> dict[str, object]:
    return {
        "type": "sampled",
        "name": profile_name(report, device),
        "unit": "bytes",
        "startValue": 0,
        "endValue": device.bytes,
        "samples": [list(one.path) for one in device.stacks],
        "weights": [one.bytes for one in device.stacks],
    }
