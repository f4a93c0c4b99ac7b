"""Tests of peak's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from memreplay.commands.peak.result import PeakReport
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import Frame
from tests.unit.commands.results import (
    BY_POOL,
    DEFAULT_POOL,
    DEVICE_PEAK,
    NO_EVENTS_PEAK,
    NO_STACK,
    PEAK,
    PEAKS,
    peak_of,
)
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize(
    "report",
    [
        PEAK,
        NO_EVENTS_PEAK,
        peak_of(peak_us=None, start_us=None),
        peak_of(peaks=PEAKS, measure="active", exactness="estimated"),
        BY_POOL,
        replace(BY_POOL, by="stream", pool=(0, 1), stream=7),
        replace(PEAK, by="file", devices=()),
        replace(PEAK, devices=(DEVICE_PEAK, replace(DEVICE_PEAK, device=3))),
    ],
)
def test_json_matches_the_schema(report: PeakReport) -> None:
    check_against("peak-1.json", json.loads(render_json(report)))


def test_json_has_the_reports_numbers() -> None:
    result = json.loads(render_json(PEAK))
    assert result["schema"] == "memreplay.peak/1"
    assert result["file"] == "snap.pkl"
    (device,) = result["devices"]
    assert device["peak_bytes"] == 10 * 1024**3
    assert device["peak_event"] == 3_737
    assert device["peak_us"] - device["start_us"] == 412_345
    assert (device["carried_over_bytes"], device["end_bytes"]) == (2 * 1024**3, 4 * 1024**3)
    first = device["groups"][0]
    assert (first["bytes"], first["count"], first["share"]) == (5 * 1024**3, 96, 0.5)
    assert first["frames"][3] == {
        "function": "scaled_dot_product_attention",
        "file": PEAK.devices[0].groups[0].frames[3].file,
        "line": 215,
    }
    assert first["user"][0] == 3
    held = sum(group["bytes"] for group in device["groups"])
    assert held + device["rest_bytes"] == device["peak_bytes"]


def test_pools_and_streams_are_listed() -> None:
    result = json.loads(render_json(BY_POOL))
    (device,) = result["devices"]
    assert (result["measure"], device["measure"]) == ("requested", "requested")
    assert device["exactness"] == "exact"
    assert [part["pool"] for part in device["pools"]] == [[0, 0], [3, 0], None]
    first = device["pools"][0]
    assert first["peak_bytes"] == DEFAULT_POOL.peak_bytes
    assert first["peak_event"] == DEFAULT_POOL.peak_event
    assert first["reserved_peak_bytes"] == DEFAULT_POOL.reserved_peak_bytes
    assert first["reserved_peak_event"] == DEFAULT_POOL.reserved_peak_event
    assert "streams" not in device
    parts = (replace(DEFAULT_POOL, pool=UNSET, stream=7),)
    by_stream = replace(BY_POOL, by="stream", devices=(replace(DEVICE_PEAK, streams=parts),))
    (device,) = json.loads(render_json(by_stream))["devices"]
    assert [part["stream"] for part in device["streams"]] == [7]
    assert "pools" not in device
    (device,) = json.loads(render_json(PEAK))["devices"]
    assert not {"pools", "streams"} & set(device)


def test_peaks_are_listed() -> None:
    (device,) = json.loads(render_json(peak_of(peaks=PEAKS)))["devices"]
    assert [(one["bytes"] >> 30, one["event_index"]) for one in device["peaks"]] == [
        (10, 3_737),
        (2, -1),
    ]


def test_names_that_cannot_be_encoded_are_escaped() -> None:
    group = replace(NO_STACK, label="\udc80", frames=(Frame("\ud800", "/\udcff.py", 1),))
    text = render_json(replace(peak_of(groups=(group,)), file="\udcfe.pkl"))
    assert text.isascii()
    assert json.loads(text)["devices"][0]["groups"][0]["frames"][0]["file"] == "/\udcff.py"
