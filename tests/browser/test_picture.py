"""Check each pixel's owner in the stacked picture against the slow reference painter and against
live sets.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import OpenPage
from tests.browser.expected import LIFE_MEASURES, event_of
from tests.browser.painter import NOTHING, Recording, View, paint, recording
from tests.browser.viewed import Picture, Viewed
from tests.views import everything

pytestmark = pytest.mark.browser

PIXELS = 1000
ROWS = 20  # rows per column


def view_of(picture: Picture) -> View:
    """Return the part that a picture shows."""
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
    """Check every visible pixel."""
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


def test_every_pixel_is_right_in_a_small_file(opened: OpenPage) -> None:
    snapshot = everything()
    snap = mr.open(build.dump(snapshot))
    page = opened(snapshot, viewport={"width": 620, "height": 480})
    for measure in LIFE_MEASURES:
        for place, device in enumerate(snap.devices):
            of = recording(snap, device, measure)
            # The whole range, a few moments, a single moment wider than the picture, and fractions
            # of a moment.
            for start, stop in ((None, None), (1, 4), (2, 3), (0.25, 2.6)):
                page.set(device=place, measure=measure, **{"from": start, "to": stop})
                check_pixels(page, of)
    page.set(axis="time", device=0, **{"from": None, "to": None})
    check_pixels(page, of := recording(snap, 0, measure))
    page.set(**{"from": 2.5, "to": 6})
    check_pixels(page, of)


def test_every_pixel_is_right_in_an_example(opened: OpenPage, example: Path) -> None:
    snap = mr.open(example)
    page = opened(example)
    rng = random.Random(example.name)
    for place, device in enumerate(snap.devices):
        measure = rng.choice(LIFE_MEASURES)
        of = recording(snap, device, measure)
        for axis, parts in (("event", (1, 0.1, 0.003)), ("time", (1, 0.03))):
            page.set(device=place, measure=measure, axis=axis, **{"from": None, "to": None})
            whole = view_of(page.picture())
            for part in parts:
                start = whole.start + rng.random() * (1 - part) * (whole.stop - whole.start)
                page.set(**{"from": start, "to": start + part * (whole.stop - whole.start)})
                check_pixels(page, of)


def test_random_pixels_are_right_in_real_files(opened: OpenPage, corpus: Path) -> None:
    """Only the three largest files are checked."""
    files = sorted(corpus.iterdir(), key=lambda one: one.stat().st_size)
    for path in files[-3:]:
        check_live_sets(opened(path), mr.open(path))


def check_live_sets(page: Viewed, snap: mr.Snapshot) -> None:
    """Check that each pixel shows the allocation at its height when the live set from `live_at` is
    stacked.
    """
    rng = random.Random(snap.file)
    place = rng.randrange(len(snap.devices))
    replay = snap.replay(snap.devices[place])
    usage = replay.measure(rng.choice(LIFE_MEASURES))
    page.set(device=place, measure=usage.measure, at=0)
    picture = page.picture()
    numbers = numbers_of(replay)
    height, width = picture.ids.shape
    for x in rng.sample(range(width), PIXELS // ROWS):
        live = usage.live_at(event=event_of(replay, int(picture.moments[x])))
        keys = zip(live.alloc_event.tolist(), live.address.tolist(), strict=True)
        order = sorted((numbers[key], int(live.size[i])) for i, key in enumerate(keys))
        tops = list(accumulate(size for _, size in order))
        for row in rng.choices(range(height), k=ROWS):
            byte = (height - row - 0.5) * picture.query["high"] / height
            found = bisect_right(tops, byte)
            expected = order[found][0] if found < len(order) else -1
            assert picture.ids[row, x] == expected, (snap.file, x, row)


def numbers_of(replay: mr.Replay) -> dict[tuple[int, int], int]:
    """Number allocations by event and address; carried-over allocations come first."""
    found = replay.lifetimes
    keys = list(zip(found.alloc_event.tolist(), found.address.tolist(), strict=True))
    carried = [key for key in keys if key[0] < replay.first_event]
    made = [key for key in keys if key[0] >= replay.first_event]
    return {key: number for number, key in enumerate([*carried, *made])}
