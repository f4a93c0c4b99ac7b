"""retold: a simulation written as a snapshot matches the model's recording of the same run."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import map_verdict
from memreplay.commands.steps.find import steps_report
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.retold import retold
from memreplay.snapshot.snapshot import Snapshot
from tests import build
from tests.allocator_blocks import GIB, Settings
from tests.allocator_strategies import SETTINGS
from tests.conftest import ROOT
from tests.simulated import modelled

NAMES = st.sampled_from(list(SETTINGS))
ROOMY = {name: replace(one, capacity=80 * GIB) for name, one in SETTINGS.items()}


def text_of(settings: Settings) -> str:
    divisions = settings.roundup_power2_divisions
    names = [*(str(2**step) for step in range(len(divisions) - 1)), ">"]
    listed = ",".join(f"{name}:{n}" for name, n in zip(names, divisions, strict=True))
    limit = settings.max_split_size
    split = 2**40 if limit is None else limit >> 20
    return (
        f"expandable_segments:{settings.expandable_segments},max_split_size_mb:{split},"
        f"roundup_power2_divisions:[{listed}]"
    )


def written(snap: Snapshot) -> dict[str, Any]:
    found: dict[str, Any] = pickle.loads(b"".join(cut(snap)[1]))
    return found


@given(recorded=NAMES, other=NAMES, seed=st.integers(0, 2**32 - 1), steps=st.integers(10, 150))
def test_written_simulation_matches_a_real_recording(
    recorded: str, other: str, seed: int, steps: int
) -> None:
    """Compare events with their addresses and stacks, segments and blocks."""
    assume(ROOMY[recorded].npu == ROOMY[other].npu)
    without = ("empty cache",)
    first, _ = modelled(ROOMY[recorded], seed, steps, without)
    want, _ = modelled(ROOMY[other], seed, steps, without)
    snap = mr.open(build.dump(first))
    if not snap.devices:
        return  # nothing happened
    found = snap.replay(0).simulate(text_of(ROOMY[other]), program_memory=80 * GIB)
    made = written(retold(snap, {0: found}))
    assert [told(one) for one in made["device_traces"][0]] == [
        told(one) for one in want["device_traces"][0]
    ]
    assert [listed(one) for one in made["segments"]] == [listed(one) for one in want["segments"]]


def told(event: dict[str, Any]) -> list[object]:
    """Return everything but the times, which differ because mapping more memory takes one more
    event.
    """
    return [event["action"], event.get("addr"), event["size"], event["stream"], frames(event)]


def listed(segment: dict[str, Any]) -> list[object]:
    """Return the blocks, without the requested sizes of free ones, which are leftovers without
    meaning.
    """
    same = ("address", "total_size", "allocated_size", "active_size", "requested_size", "stream")
    blocks = [
        [
            one["address"],
            one["size"],
            one["state"],
            one["requested_size"] if one["state"] != "inactive" else 0,
            frames(one) if one["state"] != "inactive" else [],
        ]
        for one in segment["blocks"]
    ]
    return [*(segment[name] for name in (*same, "segment_type", "is_expandable")), blocks]


def frames(entry: dict[str, Any]) -> list[object]:
    return [(one["name"], one["filename"], one["line"]) for one in entry.get("frames", ())]


@given(name=NAMES, other=NAMES, seed=st.integers(0, 2**32 - 1), before=st.integers(0, 100))
def test_written_simulation_reads_back_as_simulated(
    name: str, other: str, seed: int, before: int
) -> None:
    """The recording may start at any event, and memory may run short."""
    snap = mr.open(build.dump(modelled(SETTINGS[name], seed, 100, before=before)[0]))
    start = snap.replay(0).reserved.start_bytes
    settings = text_of(SETTINGS[name if start else other])
    found = snap.replay(0).simulate(settings, program_memory=SETTINGS[other].capacity)
    again = retold(snap, {0: found})
    assert again.replay(0).recorded.outcome == replaced(found.outcome, again)
    assert again.replay(0).recorded.reproduced or start
    if not start:
        trust = map_verdict(again, again.replay(0), strict=True)
        name = "made_by_simulation" if found.exact else "simulation_estimated"
        assert set(trust.reasons) - {"pending_frees", "synthetic_pool_events"} == {name}
        assert (trust.trusted, trust.exact) == (True, found.exact)


def replaced(outcome: Any, snap: Snapshot) -> Any:
    """Number the simulation's events as in the new snapshot, which may have more or fewer events. A
    retry that freed only oversize blocks looks like the steps that PyTorch takes before a retry.
    """
    names = [name for name in outcome.__struct_fields__ if name.endswith("_event")]
    names.append("alloc_retries")
    there = snap.replay(0).recorded.outcome
    return type(outcome)(
        **{
            name: getattr(there if name in names else outcome, name)
            for name in outcome.__struct_fields__
        }
    )


def test_simulated_card_and_settings_are_noted() -> None:
    b = build.SnapshotBuilder().segment_alloc(2**40, 20 << 20).alloc(2**40, 5 << 20)
    snapshot = b.build()
    noted = {"cards": [{"total_bytes": 2**30}], "steps": [[0, 2]]}
    lines = {"a.py": {"3": "x = y"}}
    snapshot["memreplay"] = {**noted, "source_lines": lines, "other": 1}
    snapshot["allocator_settings"] = {"expandable_segments": False, "other": [1, "x"]}
    snap = mr.open(build.dump(snapshot))
    found = snap.replay(0).simulate("expandable_segments:True")
    again = retold(snap, {0: found})
    assert again.recorder == {
        "backend": "CUDA",
        "cards": [{"total_bytes": 2**30}],
        "recorder": "simulate",
        "simulated": {"reasons": []},
        "source_lines": lines,
        "steps": [[0, 2]],
    }
    # After the file is read again, the program can use the same amount of memory.
    assert again.replay(0).recorded.program_memory_bytes == found.program_memory_bytes
    small = retold(snap, {0: snap.replay(0).simulate(program_memory=7)})
    assert small.card_bytes(0) == 7
    assert small.replay(0).recorded.program_memory_bytes == 7
    assert again.settings["other"] == [1, "x"]
    assert again.settings["expandable_segments"] is True
    assert again.replay(0).settings == found.settings


def test_simulation_may_have_no_events() -> None:
    """A card that is too small for the first request has neither segments nor blocks."""
    b = build.SnapshotBuilder().segment_alloc(2**40, 20 << 20).alloc(2**40, 5 << 20)
    snap = mr.open(build.dump(b.finish_segments().build()))
    again = retold(snap, {0: snap.replay(0).simulate(program_memory=1)})
    assert again.segment_count == 0
    assert again.replay(0).recorded.outcome.oom_count == 1


def test_action_names_may_be_odd() -> None:
    """A pickle's strings can have lone surrogates."""
    event = {"action": "\ud800", "addr": None, "size": 100, "stream": 0, "frames": None}
    b = build.SnapshotBuilder().segment_alloc(2**40, 20 << 20).alloc(2**40, 5 << 20)
    made = b.finish_segments().build()
    made["device_traces"][0].append(event)
    snap = mr.open(build.dump(made))
    assert "\ud800" in map(snap.action_name, range(256))
    again = retold(snap, {0: snap.replay(0).simulate()})
    assert again.replay(0).measure("requested").peak.bytes == 5 << 20


def test_simulations_of_another_snapshot_are_refused() -> None:
    b = build.SnapshotBuilder(2)
    for device in (0, 1):
        at = 2**40 + (device << 30)
        b.segment_alloc(at, 20 << 20, device).alloc(at, 5 << 20, device)
    data = build.dump(b.finish_segments().build())
    snap, other = mr.open(data), mr.open(data)
    mine = {device: snap.replay(device).simulate() for device in (0, 1)}
    assert retold(snap, mine).devices == (0, 1)
    for wrong in ({0: other.replay(0).simulate()}, {1: mine[0]}, {3: mine[0]}):
        with pytest.raises(
            mr.UsageError, match="the simulation belongs to another snapshot or device"
        ):
            retold(snap, wrong)
    differs = mine | {1: snap.replay(1).simulate("expandable_segments:True")}
    with pytest.raises(mr.UsageError, match="a snapshot has a single set of allocator settings"):
        retold(snap, differs)


@pytest.mark.parametrize("settings", ["", "expandable_segments:True", "roundup_power2_divisions:2"])
def test_notes_stay_with_their_allocations(settings: str) -> None:
    snap = mr.open(ROOT / "tests/data" / "recorded_gpt.pkl.gz")
    again = retold(snap, {0: snap.replay(0).simulate(settings)})
    assert again.recorded_flaw == ""
    for by in ("category", "module"):
        held = [of_groups(one, by) for one in (snap, again)]
        assert held[0] == held[1]
    steps = [steps_report(one).devices[0].steps for one in (snap, again)]
    assert [one.allocated_bytes for one in steps[0]] == [one.allocated_bytes for one in steps[1]]
    assert len(steps[0]) == 2


def of_groups(snap: Snapshot, by: str) -> list[tuple[str, int]]:
    usage = snap.replay(0).measure("requested")
    groups, *_ = Grouper(snap, by).holders(usage, usage.peak.event_index, 0)
    return [(one.label, one.bytes) for one in groups]


@pytest.mark.parametrize("device", [0, 1])
def test_devices_are_separate(device: int) -> None:
    b = build.SnapshotBuilder(devices=2)
    for one in (0, 1):
        b.segment_alloc(2**40, 20 << 20, device=one).alloc(2**40, 5 << 20, device=one)
    b.alloc(2**40 + (5 << 20), 2 << 20, device=1)
    snap = mr.open(build.dump(b.build()))
    both = retold(snap, {one: snap.replay(one).simulate() for one in (0, 1)})
    alone = retold(snap, {device: snap.replay(device).simulate()})
    assert both.devices == (0, 1)
    assert alone.devices == (device,)
    peaks = [snap.replay(at).measure("requested").peak.bytes for at in (0, 1)]
    assert [both.replay(at).measure("requested").peak.bytes for at in (0, 1)] == peaks
    assert alone.replay(device).measure("requested").peak.bytes == peaks[device]
