"""slim: columns of groups, classes and pools give the same values whether or not one byte per row
is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.snapshot.model import By
from tests import build
from tests.build import SnapshotBuilder


@pytest.mark.parametrize("n", [1, 254, 255, 256, 600])
def test_values_are_right_for_any_number_of_groups_streams_and_pools(n: int) -> None:
    builder = SnapshotBuilder()
    want: Counter[str] = Counter()
    for at in range(2 * n):
        which = at % n
        size = 512 * (which + 1)
        builder.segment_alloc(2**21 * (at + 1), 2**21, stream=which, pool_id=(1, which))
        builder.user_metadata = f"step {which}"
        builder.alloc(2**21 * (at + 1), size, stream=which, pool_id=(1, which))
        want[f"{which}"] += size
    snap = mr.open(build.dump(builder.build()))
    replay = snap.replay(0)
    usage = replay.measure()
    event = replay.first_event + replay.events - 1
    names: dict[By, Callable[[str], str]] = {
        "user_metadata": lambda one: f"step {one}",
        "stream": lambda one: "default stream" if one == "0" else f"stream {one}",
        "pool": lambda one: f"graph pool 1:{one}",
    }
    for by, name in names.items():
        groups, total, count = Grouper(snap, by).groups(usage, event, 0)
        assert {group.label: group.bytes for group in groups} == {
            name(one): size for one, size in want.items()
        }
        assert (total, count) == (n, 2 * n)
    both, _, _ = Grouper(snap, "stream,user_metadata").groups(usage, event, 0)
    assert sorted(group.bytes for group in both) == sorted(want.values())
    parts = replay.measure("active").parts("stream", event)
    assert {f"{part.stream}": part.bytes for part in parts} == dict(want)
    only = replay.measure(stream=n - 1)
    assert only.bytes_at(event) == want[f"{n - 1}"]
