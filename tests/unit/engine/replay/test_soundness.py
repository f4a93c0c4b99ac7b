"""soundness: counts of impossible states match a slow scan of every block and event."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.replay import _soundness
from memreplay.snapshot.replay import Replay
from tests import build
from tests.damage import DAMAGE, program
from tests.strategies import traces

GROWS = ("segment_alloc", "segment_map")
SEGMENTS = (*GROWS, "segment_free", "segment_unmap")
NEVER = 1 << 40


def expected(trace: list[dict[str, Any]], replay: Replay) -> dict[str, int]:
    """Compute the same numbers block by block and event by event."""
    base = replay.native
    columns = [memoryview(base.carried(name)).tolist() for name in ("address", "size", "end")]
    blocks = sorted(zip(*columns, strict=True))
    regions = [(start, start + size) for start, size, *_ in replay.reserved.regions()]
    changes = memoryview(replay.reserved.events()).tolist()
    found = dict.fromkeys(("outside", "impossible", "overlaps", "waiting", "short_events"), 0)
    reach = 0
    for address, size, ended in blocks:
        stop = address + max(size, 1)
        end = NEVER if ended == mr._core.ABSENT_ID else ended
        found["overlaps"] += address < reach
        reach = max(reach, stop)
        touching = (at for at in changes if covers(trace[at], address))
        first = next(touching, None)
        inside = any(start <= address and stop <= last for start, last in regions)
        if first is not None and end > first:
            found["impossible"] += 1
        elif not inside:
            found["outside"] += 1
    requested = [replay.measure().start_bytes, *replay.measure().series.tolist()]
    usage = replay.measure("reserved")
    reserved = [usage.start_bytes, *usage.series.tolist()]
    short = [
        at - 1
        for at, (low, high) in enumerate(zip(requested, reserved, strict=True))
        # Nothing relevant changes at a free.
        if low > high and (at == 0 or not trace[at - 1]["action"].startswith("free"))
    ]
    found["short_events"] = len(short)
    found["short_at"] = short[0] if short else -1
    for at, event in enumerate(trace):
        if event["action"] == "free_requested":
            after = trace[at + 1] if at + 1 < len(trace) else {}
            same = after.get("action") == "free_completed" and after["addr"] == event["addr"]
            found["waiting"] += not same
    return found


def covers(event: dict[str, Any], address: int) -> bool:
    return bool(event["addr"] <= address < event["addr"] + event["size"])


@given(
    seed=st.integers(0, 2**32 - 1),
    late=st.booleans(),
    kind=st.sampled_from(list(DAMAGE)),
    where=st.integers(0, 2**32 - 1),
)
def test_missing_events_are_detected(seed: int, late: bool, kind: str, where: int) -> None:
    snapshot = program(seed, late=late).snapshot
    (trace,) = snapshot["device_traces"]
    kept = DAMAGE[kind](trace, random.Random(where))
    left = trace if kept is None else [trace[at] for at in kept]
    replay = mr.open(build.dump(snapshot | {"device_traces": [left]})).replay(0)
    assert replay.soundness == expected(left, replay)


@given(traces())
def test_impossible_traces_terminate(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        found = snap.replay(device).soundness
        assert all(count >= 0 for name, count in found.items() if name != "short_at")
        assert found["short_at"] >= -1


def unfit(replay: Replay) -> tuple[int | None, int | None]:
    """Compute `active_fit` from the three series."""
    used, low, high = (replay.measure(name) for name in ("active", "requested", "reserved"))
    series = [[one.start_bytes, *one.series.tolist()] for one in (used, low, high)]
    moments = list(zip(*series, strict=True))
    below = next((at - 1 for at, (n, least, _) in enumerate(moments) if n < least), None)
    above = next((at - 1 for at, (n, _, most) in enumerate(moments) if n > most), None)
    return below, above


@given(
    seed=st.integers(0, 2**32 - 1),
    late=st.booleans(),
    kind=st.sampled_from(list(DAMAGE)),
    where=st.integers(0, 2**32 - 1),
)
def test_active_bytes_are_compared_with_the_other_measures(
    seed: int, late: bool, kind: str, where: int
) -> None:
    snapshot = program(seed, late=late).snapshot
    (trace,) = snapshot["device_traces"]
    kept = DAMAGE[kind](trace, random.Random(where))
    left = trace if kept is None else [trace[at] for at in kept]
    replay = mr.open(build.dump(snapshot | {"device_traces": [left]})).replay(0)
    assert _soundness.active_fit(replay.blocks) == unfit(replay)


@given(traces())
def test_impossible_active_bytes_are_detected(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        assert _soundness.active_fit(replay.blocks) == unfit(replay)


def test_active_above_reserved_or_below_requested_is_detected() -> None:
    """One block is larger than its segment, and one smaller than its request."""
    builder = build.SnapshotBuilder().alloc(2**30, 512)
    builder.segment(2**30, 2**21, blocks=[builder.block(2**30, 512, 512)])
    builder.segment(2**31, 2**21, blocks=[builder.block(2**31, 2**21, 2**23)])
    replay = mr.open(build.dump(builder.build())).replay(0)
    assert _soundness.active_fit(replay.blocks) == unfit(replay) == (-1, None)
