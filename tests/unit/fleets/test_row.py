"""row: a rank's row matches the other commands on its file."""

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
def test_row_matches_the_commands(file: Path) -> None:
    with mr.open(file) as snap:
        row = rank_row(snap, Selection())
        assert (row.status, row.error, row.file) == ("ok", None, str(file))
        peaks = {one.device: one for one in mr.peak(snap).devices}
        unused = {one.device: one for one in mr.fragmentation(snap).devices}
        assert [one.device for one in row.devices] == sorted(
            peaks, key=lambda device: (-peaks[device].peak_bytes, device)
        )
        for one in row.devices:
            peak, replay = peaks[one.device], snap.replay(one.device)
            assert (one.peak_bytes, one.peak_event, one.peak_us, one.start_us) == (
                peak.peak_bytes,
                peak.peak_event,
                peak.peak_us,
                peak.start_us,
            )
            assert (one.categories, one.exactness, one.reasons) == (
                peak.categories,
                peak.exactness,
                peak.reasons,
            )
            assert one.reserved_peak_bytes == replay.measure("reserved").peak.bytes
            assert one.unused_bytes == unused[one.device].unused_bytes
            assert one.oom_count == len(replay.events_of("oom"))
            assert max(one.curve_bytes, default=0) <= one.peak_bytes
            held = mr.peak(snap, by="line", device=one.device, top=HOLDERS).devices[0].groups
            assert [(h.bytes, h.count) for h in one.holders] == [(g.bytes, g.count) for g in held]


def test_curve_has_the_peak_of_each_step() -> None:
    with mr.open(ROOT / "examples" / "leaky_training.pkl.gz") as snap:
        (one,) = rank_row(snap, Selection()).devices
        steps = mr.steps(snap).devices[0].steps
        assert one.curve_by == "steps"
        assert one.curve_bytes == tuple(step.peak_bytes for step in steps)
        leaks = mr.leaks(snap).devices[0]
        assert one.leak_bytes_per_step == leaks.leak_bytes_per_step > 0
        assert one.step is not None
        there = mr.peak(snap).devices[0].step
        assert there is not None
        assert (one.step.number, one.step.of) == (there.number, len(steps))


def test_windows_do_not_rule_out_a_leak() -> None:
    """Two marked steps are too few, so windows of the long rest are judged."""
    b = SnapshotBuilder()
    for k in range(2):
        b.annotation(f"ProfilerStep#{k}", "START")
        b.alloc(BASE + k * MIB, MIB).alloc(BASE, MIB).free(BASE, MIB)
        b.annotation(f"ProfilerStep#{k}", "END")
    for _ in range(200):
        b.alloc(2 * BASE, MIB).free(2 * BASE, MIB)
    snap = mr.open(build.dump(b.build()))
    assert mr.leaks(snap).devices[0].by_windows
    assert rank_row(snap, Selection()).devices[0].leak_bytes_per_step is None


def test_curve_without_steps_has_the_peak_of_each_bucket() -> None:
    b = SnapshotBuilder()
    for at in range(2 * PARTS):
        b.alloc(BASE + at * MIB, MIB)
    snap = mr.open(build.dump(b.build()))
    (one,) = rank_row(snap, Selection()).devices
    assert one.curve_by == "events"
    assert one.curve_bytes == tuple(2 * at * MIB for at in range(1, PARTS + 1))


def test_row_lists_the_cards_it_fits_on() -> None:
    with mr.open(ROOT / "examples" / "leaky_training.pkl.gz") as snap:
        (device,) = mr.simulate(snap, search="card").devices
        assert device.need is not UNSET
        need = device.need.program_memory_bytes
        card = need + snap.replay(0).context_bytes(need)
        (one,) = rank_row(snap, Selection(), (card, card - 2 * MIB)).devices
        assert [(fit.total_memory_bytes, fit.fits, fit.exactness) for fit in one.cards] == [
            (card, True, "exact"),
            (card - 2 * MIB, False, "exact"),
        ]


def test_empty_snapshot_has_no_devices() -> None:
    snap = mr.open(build.dump({"segments": [], "device_traces": []}))
    row = rank_row(snap, Selection())
    assert (row.status, row.error, row.devices) == ("empty", "neither events nor segments", ())


def test_recorders_notes_give_rank_host_and_card() -> None:
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
    assert (one.total_memory_bytes, one.headroom_bytes) == (
        80 << 30,
        (80 << 30) - context - 20 * MIB,
    )
