"""collapsed: whatever the names are, flamegraph.pl can read the output."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.collapsed import render_collapsed
from memreplay.export.viewers.records import DeviceStacks, StacksReport, WeightedStack
from memreplay.export.viewers.weighted import stacks_report
from memreplay.snapshot.model import Frame
from tests import views
from tests.strategies import traces


def parsed(text: bytes) -> list[tuple[list[str], int]]:
    """Parse the lines of a stackcollapse file: a stack up to the last space, then a number."""
    found = []
    # splitlines() splits at every line ending that Unicode defines.
    for line in text.decode().splitlines():
        match = re.fullmatch(r"(.*)\s+?(\d+)", line)
        assert match is not None, line
        found.append((match[1].split(";"), int(match[2])))
    return found


def report_of(*names: str) -> StacksReport:
    frames = tuple(Frame(name, "", 0) for name in names)
    stack = WeightedStack(tuple(range(len(frames))), 5, 1)
    device = DeviceStacks(0, "exact", 0, None, 5, 1, (stack,))
    return StacksReport("x", "requested", "live", True, frames, (device,), (), False)


@given(traces(), st.booleans())
def test_lines_add_up_to_the_peaks(snapshot: Any, all_frames: bool) -> None:
    report = stacks_report(views.opened(snapshot), all_frames=all_frames)
    found = parsed(b"".join(render_collapsed(report)))
    sums: Counter[str] = Counter()
    for path, n_bytes in found:
        sums[path[0] if len(report.devices) > 1 else "device 0"] += n_bytes
    if len(report.devices) > 1:
        want = {f"device {one.device}": one.bytes for one in report.devices if one.bytes}
        assert dict(sums) == want
    else:
        assert sum(sums.values()) == sum(one.bytes for one in report.devices)


@given(st.lists(st.text(st.characters(), max_size=20), min_size=1, max_size=4))
def test_any_name_is_one_frame_on_one_line(names: list[str]) -> None:
    ((path, n_bytes),) = parsed(b"".join(render_collapsed(report_of(*names))))
    assert (len(path), n_bytes) == (len(names), 5)
    assert all(path)


TRAIN = "device 0;train (/home/u/train.py:99)"
HOSTILE = 'a:b\\n"c"\\x1b[31m\\u2028<é训>'


def test_file_has_a_line_for_each_stack() -> None:
    report = stacks_report(views.opened(views.everything()))
    lines = b"".join(render_collapsed(report)).decode().splitlines()
    assert lines == [
        f"{TRAIN};{HOSTILE} (/tmp/x:y z.py:3) 3000",
        "device 0;train (/home/u/train.py:99);Block.forward (/home/u/model.py:10) 1000",
        "device 0;train (/home/u/train.py:99) 700",
        "device 1;train (/home/u/train.py:99);Block.forward (/home/u/model.py:10) 10",
    ]
