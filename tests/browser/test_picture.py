"""The stacked picture: who is in each pixel, against the slow painter and against live sets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import memreplay as mr
from memreplay.snapshot.model import MeasureName
from tests import build
from tests.browser.conftest import OpenPage
from tests.browser.expected import LIFE_MEASURES, event_of
from tests.browser.painter import NOTHING, Recording, View, paint, recording
from tests.browser.viewed import Picture, Viewed
from tests.views import everything

pytestmark = pytest.mark.browser

PIXELS = 1000


def view_of(picture: Picture) -> View:
    """What part a picture shows."""
    query = picture.query
    return View(
        query["axis"],
        query["span"]["from"],
        query["span"]["to"],
        query["low"],
        query["high"],
        query["width"],
        query["height"],
    )


def check_pixels(page: Viewed, of: Recording) -> None:
    """Every pixel of what is shown."""
    picture = page.picture()
    rows, moments = paint(of, view_of(picture))
    seen = np.array(moments) != NOTHING
    assert picture.moments[seen].tolist() == np.array(moments)[seen].tolist()
    other = np.argwhere(picture.ids != np.array(rows, dtype=np.int32))
    if len(other):
        row, x = other[0]
        pytest.fail(
            f"{len(other)} pixels differ; in row {row} of column {x}, of moment {moments[x]},"
            f" is {picture.ids[row, x]}, not {rows[row][x]}: {picture.query}"
        )


@pytest.mark.parametrize("measure", LIFE_MEASURES)
def test_every_pixel_of_a_small_file(opened: OpenPage, measure: MeasureName) -> None:
    snapshot = everything()
    snap = mr.open(build.dump(snapshot))
    page = opened(snapshot, f"measure={measure}")
    for place, device in enumerate(snap.devices):
        of = recording(snap, device, measure)
        # All of it, a few moments, one that is wider than all columns, parts of a moment.
        for start, stop in ((None, None), (1, 4), (2, 3), (0.25, 2.6)):
            for axis in ("event", "time"):
                page.set(device=place, axis=axis, **{"from": start, "to": stop})
                check_pixels(page, of)


@pytest.mark.parametrize("axis", ["event", "time"])
def test_every_pixel_of_an_example(opened: OpenPage, example: Path, axis: str) -> None:
    snap = mr.open(example)
    page = opened(example, f"axis={axis}")
    rng = random.Random(example.name)
    for place, device in enumerate(snap.devices):
        measure = rng.choice(LIFE_MEASURES)
        of = recording(snap, device, measure)
        page.set(device=place, measure=measure, **{"from": None, "to": None})
        check_pixels(page, of)
        whole = view_of(page.picture())
        for part in (0.1, 0.003):
            start = whole.start + rng.random() * (1 - part) * (whole.stop - whole.start)
            page.set(**{"from": start, "to": start + part * (whole.stop - whole.start)})
            check_pixels(page, of)


def test_random_pixels_are_in_the_order_of_live_sets(opened: OpenPage, example: Path) -> None:
    check_live_sets(opened(example), mr.open(example))


def test_random_pixels_of_a_real_file(opened: OpenPage, corpus_file: Path) -> None:
    snap = mr.open(corpus_file)
    check_live_sets(opened(corpus_file), snap)


def check_live_sets(page: Viewed, snap: mr.Snapshot) -> None:
    """Under a pixel is the allocation that is there when those of `live_at` lie upon each other."""
    rng = random.Random(snap.file)
    device = rng.randrange(len(snap.devices))
    page.set(device=device)
    measure = rng.choice(LIFE_MEASURES)
    page.set(measure=measure, at=0)
    picture = page.picture()
    height, width = picture.ids.shape
    for x in rng.sample(range(width), min(100, width)):
        moment = int(picture.moments[x])
        tops = tops_of(snap, snap.devices[device], measure, moment)
        for row in rng.choices(range(height), k=PIXELS // 100):
            byte = (height - row - 0.5) * picture.query["high"] / height
            expected = next((one for one, top in tops if byte < top), -1)
            assert picture.ids[row, x] == expected, (x, row, moment)


def tops_of(
    snap: mr.Snapshot, device: int, measure: MeasureName, moment: int
) -> list[tuple[int, int]]:
    """What is live, in order of allocation: the number of each, and how high it reaches."""
    replay = snap.replay(device)
    event = event_of(replay, moment)
    live = replay.measure(measure).live_at(event=event)
    numbers = _numbers(replay)
    keys = zip(live.alloc_event.tolist(), live.address.tolist(), strict=True)
    order = sorted((numbers[key], size) for key, size in zip(keys, live.size.tolist(), strict=True))
    return list(zip((one for one, _ in order), np.cumsum([size for _, size in order]), strict=True))


def _numbers(replay: Any) -> dict[tuple[int, int], int]:
    """By event and address: those from before the first event are counted first."""
    found = replay.lifetimes
    keys = list(zip(found.alloc_event.tolist(), found.address.tolist(), strict=True))
    carried = [key for key in keys if key[0] < replay.first_event]
    made = [key for key in keys if key[0] >= replay.first_event]
    return cast(
        "dict[tuple[int, int], int]", {key: number for number, key in enumerate([*carried, *made])}
    )
