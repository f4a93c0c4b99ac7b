"""Write one stack per line, in the format of flamegraph.pl: `outer;inner BYTES`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.export.viewers.stack_names import device_name, frame_name
from memreplay.texts import collapsed_name, log_line

if TYPE_CHECKING:
    from memreplay.export.viewers.records import StacksReport

_LINES = 1 << 12  # lines per chunk


def render_collapsed(report: StacksReport) -> Iterator[bytes]:
    """Yield the lines, largest first. With several devices, the outermost frame is the device.

    `;` in names becomes `:`; newlines and other control characters are escaped.
    """
    names = [_name(frame_name(frame)) for frame in report.frames]
    several = len(report.devices) > 1
    for device in report.devices:
        head = f"{device_name(device.device)};" if several else ""
        found = [
            f"{head}{';'.join([names[i] for i in one.path])} {one.bytes}\n"
            for one in device.stacks
            if one.bytes
        ]
        for start in range(0, len(found), _LINES):
            yield log_line("".join(found[start : start + _LINES])).encode("utf-8", "replace")


def _name(text: str) -> str:
    return collapsed_name(text) or "(no name)"
