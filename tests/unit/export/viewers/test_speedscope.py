"""speedscope_json: files fit the published schema, and their weights add up."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.speedscope import render_speedscope
from memreplay.export.viewers.weighted import stacks_report
from memreplay.snapshot.model import Frame
from tests import views
from tests.conftest import ROOT
from tests.strategies import traces

SCHEMA = json.loads((ROOT / "tests" / "schemas" / "speedscope-1.25.0.json").read_text())


@given(traces(), st.booleans(), st.sampled_from(("live", "allocated")))
def test_file_fits_the_schema_and_weights_add_up(
    snapshot: Any, all_frames: bool, what: Any
) -> None:
    snap = views.opened(snapshot)
    report = stacks_report(snap, what=what, all_frames=all_frames)
    found = json.loads(render_speedscope(report))
    jsonschema.validate(found, SCHEMA)
    assert len(found["profiles"]) == len(report.devices)
    for profile, device in zip(found["profiles"], report.devices, strict=True):
        assert sum(profile["weights"]) == profile["endValue"] == device.bytes
        assert len(profile["samples"]) == len(profile["weights"])
        if what == "live":
            assert device.bytes == snap.replay(device.device).peak.bytes
        for sample in profile["samples"]:
            assert all(0 <= i < len(found["shared"]["frames"]) for i in sample)


def test_schema_rejects_an_incomplete_file() -> None:
    found = json.loads(render_speedscope(stacks_report(views.opened(views.everything()))))
    del found["shared"]
    errors = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(found))
    assert errors


def test_frames_are_unchanged() -> None:
    report = stacks_report(views.opened(views.everything()))
    found = json.loads(render_speedscope(report))
    frames = found["shared"]["frames"]
    assert {"name": views.NASTY[0], "file": views.NASTY[1], "line": 3} in frames
    first = found["profiles"][0]
    names = [frames[i]["name"] for i in first["samples"][0]]
    assert names == ["train", views.NASTY[0]]
    assert Frame(*views.NASTY) in report.frames
