"""Name the frames, devices and measures of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.export.viewers.records import DeviceStacks, StacksReport
    from memreplay.snapshot.model import Frame, MeasureName


def frame_name(frame: Frame) -> str:
    """Return `function (file:line)`, or only the parts that are known."""
    if not has_place(frame):
        return frame.function or "(no name)"
    place = f"{frame.file}:{frame.line}" if frame.line else frame.file
    return f"{frame.function} ({place})" if frame.function else place


def has_place(frame: Frame) -> bool:
    """Return whether a frame has a location. Most C++ frames have `??` and no line."""
    return bool(frame.line) or frame.file not in ("", "??")


def device_name(device: int) -> str:
    """Return a device's name."""
    return f"device {device}"


def process_name(device: int) -> str:
    """Return the name of a device's process. Perfetto appends the id."""
    return f"{device_name(device)}, as process"


def measure_name(measure: MeasureName, pool: tuple[int, int] | None = None) -> str:
    """Return a track's name."""
    return measure if pool is None else f"{measure}, pool {pool[0]}:{pool[1]}"


def profile_name(report: StacksReport, device: DeviceStacks) -> str:
    """Return the name of one device's profile."""
    about = "" if device.exactness == "exact" else " (estimated)"
    if report.what == "allocated":
        return f"device {device.device}: {report.measure} bytes allocated{about}"
    when = "at the start" if device.event_index < 0 else f"after event {device.event_index}"
    return f"device {device.device}: {report.measure} bytes live {when}{about}"
