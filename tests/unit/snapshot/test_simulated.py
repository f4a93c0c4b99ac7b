"""Tests of snapshot/simulated.py: simulations match the slow model of the allocator."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.snapshot.cards import find
from memreplay.snapshot.recorded_allocator import Outcome
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Block, Settings, Stack
from tests.allocator_strategies import SETTINGS, WEIGHTS
from tests.allocator_truth import Truth
from tests.build import Snapshot, SnapshotBuilder
from tests.simulated import BASE, Placed, Told

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.integers(20, 200)
ROOMY = {name: replace(one, capacity=80 * GIB) for name, one in SETTINGS.items()}
# Each one's PYTORCH_CUDA_ALLOC_CONF.
SPELLED = {
    "default": "",
    "roundup": "roundup_power2_divisions:4",
    "roundup by interval": "roundup_power2_divisions:[1:2,2:0,4:8,8:1,16:16,>:4]",
    "max split": "max_split_size_mb:20",
    "expandable": "expandable_segments:True",
    "expandable, roundup": "expandable_segments:True,roundup_power2_divisions:8",
}
ALLOCS = ("segment_alloc", "segment_map")
FREES = ("segment_free", "segment_unmap")


class Counting(Placed):
    """A device that counts its retries, and knows whether it freed memory itself."""

    retries = 0
    asked = False
    gave_back = False

    def malloc(self, requested: int, stream: int = 0, stack: Stack = ()) -> Block | None:
        before = len(self.history)
        self.asked = True
        try:
            return super().malloc(requested, stream, stack)
        finally:
            self.asked = False
            made = self.history[before:]
            self.gave_back |= any(one.event["action"] in FREES for one in made)

    def empty_cache(self, stack: Stack = ()) -> None:
        self.retries += self.asked
        super().empty_cache(stack)


class Ran(NamedTuple):
    """A random program on the model, with its true results."""

    snapshot: Snapshot
    truth: Truth
    retries: int
    segments: int
    gave_back: bool

    @property
    def actions(self) -> list[str]:
        return [one.event["action"] for one in self.truth.recorded]

    def request(self, event: int) -> int:
        """Return the request that caused this event's driver call."""
        while event >= 0 and self.actions[event] not in ("alloc", "oom"):
            event += 1
        return event

    def requests_before(self, event: int) -> int:
        """Return the number of requests between the start and this event."""
        some = self.actions[: max(event, 0)]
        return -1 if event < 0 else sum(action in ("alloc", "oom") for action in some)

    def outcome(self) -> dict[str, Any]:
        """Compute an `Outcome` only from the truth, with the truth's event numbers."""
        reserved, active, requested = (
            [self.truth.start_of(name), *self.truth.series(name)]
            for name in ("reserved", "active", "requested")
        )
        peak = max(reserved)
        ooms = [i for i, action in enumerate(self.actions) if action == "oom"]
        return {
            "reserved_peak_bytes": peak,
            "reserved_peak_event": reserved.index(peak) - 1,
            "requested_peak_bytes": max(requested),
            "requested_peak_event": requested.index(max(requested)) - 1,
            "active_peak_bytes": max(active),
            "active_peak_event": active.index(max(active)) - 1,
            "unused_bytes": peak - max(active),
            "segments": self.segments,
            "driver_allocs": sum(action in ALLOCS for action in self.actions),
            "driver_frees": sum(action in FREES for action in self.actions),
            "alloc_retries": self.retries,
            "oom_count": len(ooms),
            "failed_event": ooms[0] if ooms else None,
        }


def ran(
    settings: Settings, seed: int, steps: int, without: tuple[str, ...] = (), before: int = 0
) -> Ran:
    """Run a program; the same seed and steps make the same requests under any settings."""
    machine = Machine(settings)
    device = machine.devices[0] = Counting(settings, BASE)
    program = Told(device, random.Random(seed), private_pools=False)
    rng = random.Random(seed + 1)
    actions = [one for one, weight in WEIGHTS.items() for _ in range(weight) if one not in without]
    for at in range(before + steps):
        if before and at == before:
            machine.begin_recording()
            device.retries = 0
            ends = [area.addr + area.size for area in device.all_areas()]
            device.high = max(ends, default=0)
        program.step(rng.choice(actions))
    snapshot, (truth,) = machine.dump()
    return Ran(snapshot, truth, device.retries, len(snapshot["segments"]), device.gave_back)


def replayed(snapshot: Snapshot) -> mr.Replay:
    return mr.open(build.dump(snapshot)).replay(0)


def told(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in outcome.__struct_fields__}


# --- the recording's own settings -----------------------------------------------------------------


@given(name=st.sampled_from(list(SETTINGS)), seed=SEEDS, steps=STEPS)
def test_recording_matches_the_truth(name: str, seed: int, steps: int) -> None:
    run = ran(SETTINGS[name], seed, steps)
    recorded = replayed(run.snapshot).recorded
    want, got = run.outcome(), told(recorded.outcome)
    if not recorded.reproduced or SETTINGS[name].max_split_size is not None:
        # No event shows whether only oversize blocks were freed, or all other blocks as well.
        assert got.pop("alloc_retries") <= want.pop("alloc_retries")
    assert got == want


@given(name=st.sampled_from(list(SETTINGS)), seed=SEEDS, steps=STEPS)
def test_recorded_settings_reproduce_the_recording(name: str, seed: int, steps: int) -> None:
    run = ran(SETTINGS[name], seed, steps)
    want = run.outcome()
    replay = replayed(run.snapshot)
    found = replay.simulate()
    assert found.same
    if replay.recorded.total_inferred:
        # Events give only an upper bound on the memory that the card had.
        assert "oom" not in run.actions
        assert replay.recorded.program_memory_bytes is not None
        assert replay.recorded.program_memory_bytes >= replay.measure("reserved").peak.bytes
    assert (found.exact, replay.recorded.reproduced) == (True, True)
    # The segment event belongs to the request that needed the segment.
    want["reserved_peak_event"] = run.request(want["reserved_peak_event"])
    got = told(found.outcome)
    if SETTINGS[name].max_split_size is not None:
        # A retry that freed only oversize blocks looks like the steps that PyTorch takes before
        # one.
        del got["alloc_retries"], want["alloc_retries"]
    assert got == want
    assert list(found.failed_events) == [i for i, one in enumerate(run.actions) if one == "oom"]
    assert found.stopped_event is None
    assert found.fits == (not found.failed_events)


def test_simulation_with_recorded_settings_is_compared_with_the_recording() -> None:
    replay = replayed(ran(SETTINGS["crowded"], 3, 150).snapshot)
    total = replay.recorded.program_memory_bytes
    assert total is not None
    assert replay.simulate().native is replay.recorded.own
    assert replay.simulate(replay.settings, program_memory=total).native is replay.recorded.own
    assert replay.simulate(program_memory=total + MIB).native is not replay.recorded.own


def test_simulation_is_freed_with_its_replay(
    request: pytest.FixtureRequest,
) -> None:
    gc.disable()
    request.addfinalizer(gc.enable)
    replay = replayed(ran(SETTINGS["crowded"], 3, 150).snapshot)
    found = replay.simulate("expandable_segments:True")
    assert found.outcome.segments
    assert replay.recorded.is_simulated
    gone: list[weakref.ref[Any]] = [weakref.ref(replay), weakref.ref(found)]
    del replay, found
    assert [one() for one in gone] == [None, None]


# --- other settings and smaller cards, compared with running the program with them ----------------

WITHOUT_EVENTS = (
    "reserved_peak_event",
    "requested_peak_event",
    "active_peak_event",
    "failed_event",
)


@given(
    recorded=st.sampled_from(list(SPELLED)),
    other=st.sampled_from(list(SPELLED)),
    seed=SEEDS,
    steps=STEPS,
)
def test_other_settings_match_the_program_run_with_them(
    recorded: str, other: str, seed: int, steps: int
) -> None:
    """If empty_cache frees nothing, it leaves no event."""
    run = ran(ROOMY[recorded], seed, steps, without=("empty cache",))
    wanted = ran(ROOMY[other], seed, steps, without=("empty cache",))
    found = replayed(run.snapshot).simulate(back(recorded, other))
    want, got = wanted.outcome(), told(found.outcome)
    for name in WITHOUT_EVENTS[:-1]:
        event = want.pop(name)
        assert run.requests_before(got.pop(name)) == wanted.requests_before(event), name
    assert got == want
    assert (found.exact, found.fits) == (True, True)


def back(recorded: str, other: str) -> str:
    """Return the string that changes the second settings back to the first."""
    texts = [SPELLED[other]]
    if "expandable" in recorded and "expandable" not in other:
        texts.append("expandable_segments:False")
    if "roundup" in recorded and "roundup" not in other:
        texts.append("roundup_power2_divisions:1")
    if recorded == "max split":
        texts.append(f"max_split_size_mb:{2**43}" if other != "max split" else "")
    return ",".join(text for text in texts if text)


@given(
    name=st.sampled_from(["default", "roundup", "max split", "expandable"]),
    seed=SEEDS,
    steps=st.integers(60, 250),
    part=st.floats(0.1, 0.95),
)
def test_smaller_card_matches_the_program_run_on_it(
    name: str, seed: int, steps: int, part: float
) -> None:
    """Compare up to the first failing request, after which the model's program differs."""
    without = ("empty cache", "record stream")
    run = ran(ROOMY[name], seed, steps, without)
    replay = replayed(run.snapshot)
    peak = replay.recorded.outcome.reserved_peak_bytes
    total = max(2 * MIB, int(peak * part))
    wanted = ran(replace(ROOMY[name], capacity=total), seed, steps, without)
    found = replay.simulate(program_memory=total)
    ooms = [i for i, action in enumerate(wanted.actions) if action == "oom"]
    if not ooms:
        assert (found.failed_events, found.stopped_event, found.fits) == ((), None, True)
        assert found.outcome.reserved_peak_bytes == wanted.outcome()["reserved_peak_bytes"]
        assert found.outcome.alloc_retries == wanted.retries
        assert found.outcome.driver_frees == wanted.outcome()["driver_frees"]
        assert found.outcome.segments == wanted.segments
        return
    stopped = found.stopped_event
    assert stopped is not None
    assert (found.failed_events, found.outcome.failed_event) == ((stopped,), stopped)
    assert (found.fits, found.outcome.oom_count) == (False, 1)
    assert run.requests_before(stopped) == wanted.requests_before(ooms[0])
    until = wanted.truth.series("reserved")[: ooms[0]]
    assert found.outcome.reserved_peak_bytes == max([0, *until])
    some = wanted.actions[: ooms[0]]
    assert found.outcome.driver_allocs == sum(action in ALLOCS for action in some)
    assert found.outcome.driver_frees == sum(action in FREES for action in some)


# --- how exact a result is ----------------------------------------------------------------------


def small(*sizes: int, total: int | None = None) -> mr.Replay:
    """Build requests with a segment each, and free the last one. Then request a whole card, for
    which PyTorch frees that segment in vain.
    """
    b = SnapshotBuilder()
    at = BASE
    for size in sizes:
        b.segment_alloc(at, size).alloc(at, size)
        at += size
    b.free(at - sizes[-1], sizes[-1])
    if total is not None:
        b.segment_free(at - sizes[-1], sizes[-1]).oom(total, total - sum(sizes[:-1]))
    return replayed(b.finish_segments().build())


def test_recording_from_the_first_allocation_is_trusted() -> None:
    replay = small(30 * MIB, 40 * MIB)
    for found in (replay.simulate(), replay.simulate("expandable_segments:True")):
        assert (found.reasons, found.exact) == ((), True)
    assert replay.recorded.program_memory_bytes is None


def test_reason_if_the_recording_is_not_reproduced() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 64 * MIB).alloc(BASE, 5 * MIB)  # 20 MiB is enough
    replay = replayed(b.finish_segments().build())
    assert not replay.recorded.reproduced
    assert replay.simulate().reasons == ("not_reproduced",)
    assert replay.simulate("expandable_segments:True").reasons == ("not_reproduced",)


class Falling(Placed):
    """A device whose driver assigns descending addresses, which no simulation does."""

    low = BASE + (1 << 40)

    def new_area(self, size: int, *rest: Any) -> Any:
        area = super().new_area(size, *rest)
        self.low -= 1 << 30
        area.addr = self.low
        for block in area.blocks:
            block.addr = self.low
        return area


def test_different_blocks_in_the_same_segments_are_inexact() -> None:
    """The simulation uses the other of two free 14 MiB blocks, so a request for 15.5 MiB gets a
    larger block.
    """
    machine = Machine(Settings())
    device = machine.devices[0] = Falling(Settings(), BASE)

    def malloc(size: int) -> Block:
        found = device.malloc(size, stack=(("malloc", "program.py", 1),))
        assert found is not None
        return found

    first, large = malloc(14 * MIB), malloc(30 * MIB)
    device.free(large)
    second, third = malloc(14 * MIB), malloc(16 * MIB)
    device.free(first)
    device.free(second)
    malloc(14 * MIB)
    device.free(third)
    malloc(31 * MIB // 2)
    malloc(40 * MIB)
    replay = replayed(machine.dump()[0])
    assert replay.recorded.reproduced
    simulation = replay.simulate()
    assert replay.measure("active").peak.bytes == 70 * MIB
    assert simulation.outcome.active_peak_bytes == 139 * MIB // 2
    assert (simulation.exact, simulation.reasons) == (False, ("placed_by_address",))


@pytest.mark.parametrize("reuses", [False, True])
def test_free_block_is_chosen_by_the_drivers_addresses(reuses: bool) -> None:
    """There are two free 14 MiB blocks: one in the older segment and, if the driver reuses the
    first segment's address, one at the lower address.
    """
    machine = Machine(Settings())
    device = machine.devices[0] = Placed(Settings(), BASE)
    device.reuses = reuses

    def malloc(size: int) -> Block:
        found = device.malloc(size, stack=(("malloc", "program.py", 1),))
        assert found is not None
        return found

    first, older = malloc(14 * MIB), malloc(30 * MIB)
    device.free(first)
    device.empty_cache(stack=(("empty_cache", "program.py", 2),))
    newer = malloc(14 * MIB)
    device.free(older)
    malloc(16 * MIB)
    device.free(newer)
    malloc(14 * MIB)
    replay = replayed(machine.dump()[0])
    assert (replay.recorded.reproduced, replay.recorded.own.reuses) == (True, reuses)
    assert replay.simulate().reasons == ()
    wanted = ("placed_by_address",) if reuses else ()
    assert replay.simulate("max_split_size_mb:20").reasons == wanted


def waiting(*, total: int) -> mr.Replay:
    """Build a free that waits for a stream, and a request that fails unless it waits for
    streams.
    """
    settings = Settings(capacity=total)
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    block = device.malloc(40 * MIB, stack=(("malloc", "program.py", 1),))
    assert block is not None
    device.record_stream(block, 7)
    device.free(block, (("free", "program.py", 2),))
    device.malloc(50 * MIB, stack=(("malloc", "program.py", 3),))
    device.finish_stream(7)
    device.malloc(10 * MIB, stack=(("malloc", "program.py", 4),))
    return replayed(machine.dump()[0])


def test_request_may_wait_for_other_streams() -> None:
    """The file doesn't show when frees complete after a failed request."""
    short, roomy = waiting(total=60 * MIB), waiting(total=200 * MIB)
    for replay in (short, roomy):
        assert replay.recorded.reproduced
        assert replay.simulate().resynced_event is None
    for found in (
        short.simulate(program_memory=200 * MIB),
        roomy.simulate(program_memory=60 * MIB),
    ):
        assert found.resynced_event is not None
        assert "streams_waited" in found.reasons
    assert "streams_waited" not in roomy.simulate(program_memory=150 * MIB).reasons


def late() -> mr.Replay:
    """Build 64 MiB that is in use before the recording, and 20 MiB that is cached."""
    b = SnapshotBuilder().alloc(BASE + 128 * MIB, 4 * MIB)
    made = b.build()
    made["segments"] = [segment(BASE, 64 * MIB, used=True), segment(BASE + 128 * MIB, 20 * MIB)]
    made["segments"][1]["blocks"] = [
        {"address": BASE + 128 * MIB, "size": 4 * MIB, "requested_size": 4 * MIB}
        | {"state": "active_allocated", "frames": []},
        {"address": BASE + 132 * MIB, "size": 16 * MIB, "requested_size": 0}
        | {"state": "inactive", "frames": []},
    ]
    return replayed(made)


def segment(address: int, size: int, *, used: bool = False) -> dict[str, Any]:
    state = "active_allocated" if used else "inactive"
    asked = size if used else 0
    block = {"address": address, "size": size, "requested_size": asked, "state": state}
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": asked,
        "active_size": asked,
        "requested_size": asked,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block | {"frames": []}],
    }


def test_carried_over_memory_is_assumed_to_be_needed() -> None:
    replay = late()
    assert replay.simulate().reasons == ()
    found = replay.simulate("expandable_segments:True")
    assert found.reasons == ("began_with_memory",)
    assert found.outcome.reserved_peak_bytes == 84 * MIB
    # Memory reserved at the start is assumed to be needed, although nothing more is requested.
    for total, fits in ((84 * MIB, True), (84 * MIB - 1, False)):
        found = replay.simulate(program_memory=total)
        assert (found.fits, found.failed_events) == (fits, ())
        assert ("start_too_large" in found.reasons) == (not fits)


def test_reason_if_carried_over_memory_has_no_segment() -> None:
    b = SnapshotBuilder().free(BASE, 4 * MIB)
    found = replayed(b.finish_segments().build()).simulate()
    assert "start_unplaced" in found.reasons


def test_reason_if_a_failed_request_succeeds() -> None:
    replay = small(30 * MIB, 40 * MIB, total=100 * MIB)
    assert replay.recorded.outcome.oom_count == 1
    assert replay.recorded.program_memory_bytes == 100 * MIB
    assert (replay.simulate().failed_events, replay.simulate().reasons) == ((7,), ())
    found = replay.simulate(program_memory=200 * MIB)
    assert (found.failed_events, found.fits, found.reasons) == ((), True, ("request_succeeds",))
    assert found.outcome.reserved_peak_bytes == (30 + 40 + 100) * MIB


def test_capacity_is_inferred_if_no_event_gives_it() -> None:
    b = SnapshotBuilder()
    for at, size in ((0, 30), (100, 40)):
        b.segment_alloc(BASE + at * MIB, size * MIB).alloc(BASE + at * MIB, size * MIB)
    b.free(BASE + 100 * MIB, 40 * MIB).segment_free(BASE + 100 * MIB, 40 * MIB)
    b.segment_alloc(BASE + 200 * MIB, 60 * MIB).alloc(BASE + 200 * MIB, 60 * MIB)
    replay = replayed(b.finish_segments().build())
    assert replay.recorded.total_inferred
    assert replay.recorded.program_memory_bytes == 130 * MIB - 1  # 70 + 60 MiB weren't available
    assert replay.recorded.outcome.alloc_retries == 1
    assert replay.simulate().reasons == ()
    assert replay.simulate("max_split_size_mb:64").reasons == ("total_inferred",)
    found = replay.simulate(program_memory=200 * MIB)
    assert (found.outcome.reserved_peak_bytes, found.reasons) == (130 * MIB, ())


def test_process_limit_is_inferred_from_a_failed_request() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 30 * MIB).alloc(BASE, 30 * MIB)
    b.oom(40 * MIB, 10 * GIB)
    replay = replayed(b.finish_segments().build())
    assert replay.recorded.allowed_bytes == 30 * MIB
    assert replay.recorded.allowed_inferred
    assert replay.simulate().failed_events == (2,)
    assert replay.simulate("max_split_size_mb:64").reasons == ("limit_inferred",)
    # A given capacity means a card that no other process uses.
    found = replay.simulate("max_split_size_mb:64", program_memory=10 * GIB)
    assert found.reasons == ("request_succeeds",)


def test_memory_fraction_limits_a_given_card() -> None:
    replay = small(30 * MIB, 40 * MIB)
    half = "per_process_memory_fraction:0.5"
    assert replay.simulate(half, program_memory=140 * MIB).fits
    found = replay.simulate(half, program_memory=139 * MIB)
    assert (found.fits, found.stopped_event) == (False, 3)
    assert replay.simulate(program_memory=139 * MIB).fits
    with pytest.raises(mr.UsageError, match="add --total-memory"):
        replay.simulate(half)


def test_card_noted_by_the_recorder_gives_the_capacity() -> None:
    made = (
        SnapshotBuilder()
        .segment_alloc(BASE, 30 * MIB)
        .alloc(BASE, 30 * MIB)
        .finish_segments()
        .build()
    )
    card = find("A100-40")
    noted = {"name": card.name, "total_bytes": 600 * MIB}  # as set by a dry run's --total-memory
    replay = replayed({**made, "memreplay": {"cards": [noted]}})
    assert replay.recorded.program_memory_bytes == 600 * MIB - card.context_bytes
    assert replay.simulate().program_memory_bytes == 600 * MIB - card.context_bytes
    assert replay.simulate("per_process_memory_fraction:0.05").fits  # a fraction of the whole card
    assert not replay.simulate("per_process_memory_fraction:0.049").fits


@pytest.mark.parametrize("recorder", ["record", "dryrun"])
def test_measured_memory_outside_the_allocator_is_subtracted(recorder: str) -> None:
    made = SnapshotBuilder().segment_alloc(BASE, 30 * MIB).alloc(BASE, 30 * MIB).finish_segments()
    card = {"name": "A card", "total_bytes": 600 * MIB, "context_bytes": 70 * MIB}
    notes = {"recorder": recorder, "cards": [card]}
    replay = replayed({**made.build(), "memreplay": notes})
    assert replay.usable_bytes(600 * MIB) == 530 * MIB
    assert replay.context_measured(600 * MIB) == (recorder == "record")
    assert not replay.context_measured(800 * MIB)


def test_program_could_use_at_least_its_reserved_memory() -> None:
    made = SnapshotBuilder().segment_alloc(BASE, 30 * MIB).finish_segments().build()
    replay = replayed({**made, "memreplay": {"cards": [{"total_bytes": 60 * MIB}]}})
    assert replay.recorded.program_memory_bytes == 30 * MIB


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(mr.UsageError, match="no allocator setting 'nothing'"):
        small(MIB).simulate("nothing:1")


def test_missing_segment_events_do_not_give_negative_bytes() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 2 * MIB).alloc(BASE, MIB).alloc(BASE + GIB, 50 * MIB)
    assert replayed(b.build()).recorded.outcome.unused_bytes == 0


def test_snapshot_without_events_keeps_its_segments() -> None:
    made = {"segments": [segment(BASE, 20 * MIB)], "device_traces": [[]]}
    found = replayed(made).simulate("expandable_segments:True", program_memory=GIB)
    assert found.outcome.reserved_peak_bytes == 20 * MIB
    assert (found.outcome.segments, found.outcome.driver_allocs) == (1, 0)


def test_repr_names_the_settings_and_the_outcome() -> None:
    found = small(30 * MIB).simulate("expandable_segments:True")
    assert repr(found).startswith("<Simulated: expandable_segments:True, Outcome(reserved_peak_")
    assert "expandable_segments:True" in found._repr_html_()


# --- real snapshots -------------------------------------------------------------------------------

# This file's segment events are incomplete, as other numbers in it show.
WITHOUT_EVENTS_OF_SEGMENTS = {"facebookresearch_mosaic__output"}


def test_real_recordings_are_reproduced(corpus_file: Path) -> None:
    snap = mr.open(corpus_file)
    for device in snap.devices:
        replay = snap.replay(device)
        whole = corpus_file.stem not in WITHOUT_EVENTS_OF_SEGMENTS
        assert replay.recorded.reproduced == whole
        if not whole:
            continue
        want, got = told(replay.recorded.outcome), told(replay.simulate().outcome)
        assert got.pop("reserved_peak_event") >= want.pop("reserved_peak_event")
        assert got == want
        # A setting that affects no request changes nothing.
        beyond = f"max_split_size_mb:{2**30}"
        if replay.settings.max_split_bytes < 0:
            assert told(replay.simulate(beyond).outcome) == told(replay.simulate().outcome)


def test_results_for_real_recordings_are_stable(corpus_file: Path) -> None:
    """Other settings change the addresses, but not the requested bytes."""
    replay = mr.open(corpus_file).replay()
    peak = replay.measure("requested").peak
    for text in ("expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"):
        outcome = replay.simulate(text).outcome
        assert outcome.requested_peak_bytes == peak.bytes
        assert outcome.requested_peak_event == peak.event_index
        assert outcome.active_peak_bytes >= peak.bytes
        assert outcome.reserved_peak_bytes >= outcome.active_peak_bytes


@pytest.mark.parametrize("total", [-1, 0, 1 << 62, 1 << 70])
def test_impossible_card_sizes_are_refused(total: int) -> None:
    with pytest.raises(mr.UsageError, match="program_memory must be from 1 to"):
        small(30 * MIB).simulate(program_memory=total)


def test_settings_and_sizes_of_another_type_are_refused() -> None:
    replay = small(30 * MIB)
    with pytest.raises(TypeError, match="settings must be a string"):
        replay.simulate(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str"):
        replay.simulate(program_memory="40GiB")  # type: ignore[arg-type]
