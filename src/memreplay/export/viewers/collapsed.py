"""Stacks in a line each, as flamegraph.pl and its like read them: `outer;inner BYTES`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.export.viewers.stack_names import device_name, frame_name

if TYPE_CHECKING:
    from memreplay.export.viewers.records import StacksReport

_LINES = 1 << 12  # at a time
# What ends a line for some reader, and other controls; the form itself knows no way to say them.
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def render_collapsed(report: StacksReport) -> Iterator[bytes]:
    """Lines, the largest first; of several devices, the outermost frame is the device.

    `;` in a name becomes `:`, and line ends and other controls a space.
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
            yield "".join(found[start : start + _LINES]).encode("utf-8", "replace")


def _name(text: str) -> str:
    return _BREAKS.sub(" ", text).replace(";", ":").strip() or "(no name)"
