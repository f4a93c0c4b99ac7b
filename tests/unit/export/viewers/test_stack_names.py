"""stack_names: names of frames and profiles."""

from __future__ import annotations

import pytest

from memreplay.export.viewers.stack_names import frame_name, measure_name, profile_name
from memreplay.export.viewers.weighted import stacks_report
from memreplay.snapshot.model import Frame, When
from tests import views


@pytest.mark.parametrize(
    "frame, name",
    [
        (Frame("f", "a.py", 3), "f (a.py:3)"),
        (Frame("at::empty", "??", 0), "at::empty"),
        (Frame("at::empty", "x.so", 0), "at::empty (x.so)"),
        (Frame("f", "", 7), "f (:7)"),
        (Frame("", "a.py", 3), "a.py:3"),
        (Frame("(recorded without a stack)", "", 0), "(recorded without a stack)"),
        (Frame("", "", 0), "(no name)"),
    ],
)
def test_frames_are_named(frame: Frame, name: str) -> None:
    assert frame_name(frame) == name


def test_profile_name_has_the_device_measure_and_moment() -> None:
    snap = views.opened(views.everything())
    report = stacks_report(snap)
    assert profile_name(report, report.devices[0]).startswith(
        "device 0: requested bytes live after event 1"
    )
    made = stacks_report(snap, when=When("start"))
    assert profile_name(made, made.devices[0]).startswith(
        "device 0: requested bytes live at the start"
    )
    made = stacks_report(snap, what="allocated", measure="held")
    assert profile_name(made, made.devices[1]).startswith("device 1: held bytes allocated")
    assert measure_name("held", (0, 1)) == "held, pool 0:1"
