"""row: what is told of a rank is what the other commands tell of its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.fleets.row import HOLDERS, PARTS, rank_row
from memreplay.snapshot.cards import context_bytes
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.pkl.gz"))
BASE = 1 << 40
MIB = 1 << 20


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_it_is_what_the_commands_say(file: Path) -> None:
    with mr.open(file) as snap:
        row = rank_row(snap, Selection())
        assert (row.status, row.error, row.file) == ("ok", "", str(file))
        peaks = {one.device: one for one in mr.peak(snap).devices}
        unused = {one.device: one for one in mr.fragmentation(snap).devices}
        assert [one.device for one in row.devices] == sorted(
            peaks, key=lambda device: (-peaks[device].peak_bytes, device)
        )
        for one in row.devices:
            peak, replay = peaks[one.device], snap.replay(one.device)
            assert (one.peak_bytes, one.event_index, one.time_us, one.start_us) == (
                peak.peak_bytes,
                peak.event_index,
                peak.time_us,
                peak.start_us,
            )
            assert (one.categories, one.exactness, one.reasons) == (
                peak.categories,
                peak.exactness,
                peak.reasons,
            )
            assert one.reserved_peak_bytes == replay.measure("reserved").peak.bytes
            assert one.unused_bytes == unused[one.device].unused_bytes
            assert one.ooms == len(replay.events_of("oom"))
            assert max(one.curve, default=0) <= one.peak_bytes
            held = mr.peak(snap, by="line", device=one.device, top=HOLDERS).devices[0].groups
            assert [(h.bytes, h.count) for h in one.holders] == [(g.bytes, g.count) for g in held]


def test_a_curve_of_steps() -> None:
    with mr.open(ROOT / "examples" / "leaky_training.pkl.gz") as snap:
        (one,) = rank_row(snap, Selection()).devices
        steps = mr.steps(snap).devices[0].steps
        assert one.curve_by == "steps"
        assert one.curve == tuple(step.peak_bytes for step in steps)
        leaks = mr.leaks(snap).devices[0]
        assert one.leak_bytes_per_step == leaks.leak_bytes_per_step > 0
        assert one.step is not None
        there = mr.peak(snap).devices[0].step
        assert there is not None
        assert (one.step.number, one.step.of) == (there.number, len(steps))


def test_a_curve_of_parts_of_the_events() -> None:
    b = SnapshotBuilder()
    for at in range(2 * PARTS):
        b.alloc(BASE + at * MIB, MIB)
    snap = mr.open(build.dump(b.build()))
    (one,) = rank_row(snap, Selection()).devices
    assert one.curve_by == "events"
    assert one.curve == tuple(2 * at * MIB for at in range(1, PARTS + 1))


def test_cards_on_which_it_fits_or_not() -> None:
    with mr.open(ROOT / "examples" / "leaky_training.pkl.gz") as snap:
        (device,) = mr.simulate(snap, smallest=True).devices
        assert device.need is not UNSET
        need = device.need.total_bytes
        card = need + snap.replay(0).context_bytes(need)
        (one,) = rank_row(snap, Selection(), (card, card - 2 * MIB)).devices
        assert [(fit.total_bytes, fit.fits, fit.exactness) for fit in one.cards] == [
            (card, True, "exact"),
            (card - 2 * MIB, False, "exact"),
        ]


def test_nothing_in_it() -> None:
    snap = mr.open(build.dump({"segments": [], "device_traces": []}))
    row = rank_row(snap, Selection())
    assert (row.status, row.error, row.devices) == ("empty", "neither events nor segments", ())


def test_what_the_recorder_noted() -> None:
    made = SnapshotBuilder().segment_alloc(BASE, 20 * MIB).alloc(BASE, MIB).build()
    made["memreplay"] = {
        "recorder": "record",
        "rank": 5,
        "host": "node-7",
        "cards": [{"total_bytes": 80 << 30}],
    }
    row = rank_row(mr.open(build.dump(made)), Selection())
    assert (row.noted_rank, row.host) == (5, "node-7")
    (one,) = row.devices
    context = context_bytes(80 << 30)
    assert (one.total_bytes, one.headroom_bytes) == (80 << 30, (80 << 30) - context - 20 * MIB)
