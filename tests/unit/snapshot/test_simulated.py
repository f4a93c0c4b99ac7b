"""Tests of snapshot/simulated.py, against the slow model of the allocator."""

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
from tests.allocator import GIB, MIB, Block, Machine, Settings, Stack, Truth
from tests.allocator_strategies import SETTINGS, WEIGHTS
from tests.build import Snapshot, SnapshotBuilder
from tests.simulated import BASE, Placed, Told

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.integers(20, 200)
ROOMY = {name: replace(one, capacity=80 * GIB) for name, one in SETTINGS.items()}
# How PYTORCH_CUDA_ALLOC_CONF spells them.
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
    """A device that counts its retries, and knows whether it gave memory back by itself."""

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
    """A random program on the model, and the truth of it."""

    snapshot: Snapshot
    truth: Truth
    retries: int
    segments: int
    gave_back: bool

    @property
    def actions(self) -> list[str]:
        return [one.event["action"] for one in self.truth.recorded]

    def request(self, event: int) -> int:
        """The request for which something was asked of the driver with this event."""
        while event >= 0 and self.actions[event] not in ("alloc", "oom"):
            event += 1
        return event

    def requests_before(self, event: int) -> int:
        """How many requests came before this event, and after the start."""
        some = self.actions[: max(event, 0)]
        return -1 if event < 0 else sum(action in ("alloc", "oom") for action in some)

    def outcome(self) -> dict[str, Any]:
        """What `Outcome` has to say, told of the truth alone; events as they are in it."""
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
            "ooms": len(ooms),
            "failed_event": ooms[0] if ooms else None,
        }


def ran(
    settings: Settings, seed: int, steps: int, without: tuple[str, ...] = (), before: int = 0
) -> Ran:
    """The same seed and the same steps ask for the same, whatever the settings."""
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
def test_what_the_recording_says_is_the_truth(name: str, seed: int, steps: int) -> None:
    run = ran(SETTINGS[name], seed, steps)
    recorded = replayed(run.snapshot).recorded
    want, got = run.outcome(), told(recorded.outcome)
    if not recorded.reproduced or SETTINGS[name].max_split_size is not None:
        # Whether oversize blocks went alone or with all the others no event says.
        assert got.pop("alloc_retries") <= want.pop("alloc_retries")
    assert got == want


@given(name=st.sampled_from(list(SETTINGS)), seed=SEEDS, steps=STEPS)
def test_its_own_settings_give_the_same_again(name: str, seed: int, steps: int) -> None:
    run = ran(SETTINGS[name], seed, steps)
    want = run.outcome()
    replay = replayed(run.snapshot)
    found = replay.simulate()
    assert found.same
    if replay.recorded.total_inferred:
        # How much there was no event says, but what it was less than.
        assert "oom" not in run.actions
        assert replay.recorded.total_bytes is not None
        assert replay.recorded.total_bytes >= replay.measure("reserved").peak.bytes
    assert (found.exact, replay.recorded.reproduced) == (True, True)
    # The segment event is the request's that it was made for.
    want["reserved_peak_event"] = run.request(want["reserved_peak_event"])
    got = told(found.outcome)
    if SETTINGS[name].max_split_size is not None:
        # A retry that gave back oversize blocks alone looks like what PyTorch does before one.
        del got["alloc_retries"], want["alloc_retries"]
    assert got == want
    assert list(found.failed_events) == [i for i, one in enumerate(run.actions) if one == "oom"]
    assert found.stopped_event is None
    assert found.fits == (not found.failed_events)


def test_a_simulation_of_the_same_settings_is_the_one_that_is_held_against_the_recording() -> None:
    replay = replayed(ran(SETTINGS["crowded"], 3, 150).snapshot)
    total = replay.recorded.total_bytes
    assert total is not None
    assert replay.simulate().native is replay.recorded.own
    assert replay.simulate(replay.settings, total_bytes=total).native is replay.recorded.own
    assert replay.simulate(total_bytes=total + MIB).native is not replay.recorded.own


def test_what_was_simulated_goes_with_its_replay_and_not_when_python_looks(
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


# --- other settings, and smaller cards, against what the program gets with them -------------------

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
def test_other_settings(recorded: str, other: str, seed: int, steps: int) -> None:
    """An emptied cache of which nothing went leaves no event."""
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
    """The text that makes the settings of one those of the other."""
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
def test_a_smaller_card(name: str, seed: int, steps: int, part: float) -> None:
    """Up to the first request that fails: what the model's program does then is another one."""
    without = ("empty cache", "record stream")
    run = ran(ROOMY[name], seed, steps, without)
    replay = replayed(run.snapshot)
    peak = replay.recorded.outcome.reserved_peak_bytes
    total = max(2 * MIB, int(peak * part))
    wanted = ran(replace(ROOMY[name], capacity=total), seed, steps, without)
    found = replay.simulate(total_bytes=total)
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
    assert (found.fits, found.outcome.ooms) == (False, 1)
    assert run.requests_before(stopped) == wanted.requests_before(ooms[0])
    until = wanted.truth.series("reserved")[: ooms[0]]
    assert found.outcome.reserved_peak_bytes == max([0, *until])
    some = wanted.actions[: ooms[0]]
    assert found.outcome.driver_allocs == sum(action in ALLOCS for action in some)
    assert found.outcome.driver_frees == sum(action in FREES for action in some)


# --- what a result is worth -----------------------------------------------------------------------


def small(*sizes: int, total: int | None = None) -> mr.Replay:
    """Requests that each have a segment of their own, of which the last one is freed; then one for
    all of a card, for which its segment goes in vain."""
    b = SnapshotBuilder()
    at = BASE
    for size in sizes:
        b.segment_alloc(at, size).alloc(at, size)
        at += size
    b.free(at - sizes[-1], sizes[-1])
    if total is not None:
        b.segment_free(at - sizes[-1], sizes[-1]).oom(total, total - sum(sizes[:-1]))
    return replayed(b.finish_segments().build())


def test_nothing_speaks_against_a_recording_from_the_first_allocation_on() -> None:
    replay = small(30 * MIB, 40 * MIB)
    for found in (replay.simulate(), replay.simulate("expandable_segments:True")):
        assert (found.reasons, found.exact) == ((), True)
    assert replay.recorded.total_bytes is None


def test_a_recording_that_is_not_reproduced() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 64 * MIB).alloc(BASE, 5 * MIB)  # 20 MiB would do
    replay = replayed(b.finish_segments().build())
    assert not replay.recorded.reproduced
    assert replay.simulate().reasons == ("not_reproduced",)
    assert replay.simulate("expandable_segments:True").reasons == ("not_reproduced",)


class Falling(Placed):
    """A device whose driver goes down in addresses, as no simulation does."""

    low = BASE + (1 << 40)

    def new_area(self, size: int, *rest: Any) -> Any:
        area = super().new_area(size, *rest)
        self.low -= 1 << 30
        area.addr = self.low
        for block in area.blocks:
            block.addr = self.low
        return area


def test_other_blocks_of_the_same_segments_are_not_exact() -> None:
    """Of two free blocks of 14 MiB the other one is used, so that 15.5 MiB have a larger block."""
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
def test_where_the_driver_puts_segments(reuses: bool) -> None:
    """Two free blocks of 14 MiB: one in the older segment, one at the lower address, if the driver
    gives that of the first segment again."""
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
    """A free that waits for a stream, and a request that fails unless streams are waited for."""
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


def test_streams_that_a_request_waits_for() -> None:
    """When frees complete after that no file tells."""
    short, roomy = waiting(total=60 * MIB), waiting(total=200 * MIB)
    for replay in (short, roomy):
        assert replay.recorded.reproduced
        assert replay.simulate().resynced_event is None
    for found in (
        short.simulate(total_bytes=200 * MIB),
        roomy.simulate(total_bytes=60 * MIB),
    ):
        assert found.resynced_event is not None
        assert "streams_waited" in found.reasons
    assert "streams_waited" not in roomy.simulate(total_bytes=150 * MIB).reasons


def late() -> mr.Replay:
    """64 MiB in use before the recording, and 20 cached."""
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


def test_what_was_there_before() -> None:
    replay = late()
    assert replay.simulate().reasons == ()
    found = replay.simulate("expandable_segments:True")
    assert found.reasons == ("began_with_memory",)
    assert found.outcome.reserved_peak_bytes == 84 * MIB
    # What is reserved at the start is taken to be needed, though nothing more is asked for.
    for total, fits in ((84 * MIB, True), (84 * MIB - 1, False)):
        found = replay.simulate(total_bytes=total)
        assert (found.fits, found.failed_events) == (fits, ())
        assert ("start_too_large" in found.reasons) == (not fits)


def test_memory_of_the_start_that_lies_nowhere() -> None:
    b = SnapshotBuilder().free(BASE, 4 * MIB)
    found = replayed(b.finish_segments().build()).simulate()
    assert "start_unplaced" in found.reasons


def test_a_request_that_succeeds_now() -> None:
    replay = small(30 * MIB, 40 * MIB, total=100 * MIB)
    assert replay.recorded.outcome.ooms == 1
    assert replay.recorded.total_bytes == 100 * MIB
    assert (replay.simulate().failed_events, replay.simulate().reasons) == ((7,), ())
    found = replay.simulate(total_bytes=200 * MIB)
    assert (found.failed_events, found.fits, found.reasons) == ((), True, ("request_succeeds",))
    assert found.outcome.reserved_peak_bytes == (30 + 40 + 100) * MIB


def test_memory_that_was_short_and_no_event_says_how_much_there_was() -> None:
    b = SnapshotBuilder()
    for at, size in ((0, 30), (100, 40)):
        b.segment_alloc(BASE + at * MIB, size * MIB).alloc(BASE + at * MIB, size * MIB)
    b.free(BASE + 100 * MIB, 40 * MIB).segment_free(BASE + 100 * MIB, 40 * MIB)
    b.segment_alloc(BASE + 200 * MIB, 60 * MIB).alloc(BASE + 200 * MIB, 60 * MIB)
    replay = replayed(b.finish_segments().build())
    assert replay.recorded.total_inferred
    assert replay.recorded.total_bytes == 130 * MIB - 1  # 70 and 60 more there was not
    assert replay.recorded.outcome.alloc_retries == 1
    assert replay.simulate().reasons == ()
    assert replay.simulate("max_split_size_mb:64").reasons == ("total_inferred",)
    found = replay.simulate(total_bytes=200 * MIB)
    assert (found.outcome.reserved_peak_bytes, found.reasons) == (130 * MIB, ())


def test_a_limit_of_the_process() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 30 * MIB).alloc(BASE, 30 * MIB)
    b.oom(40 * MIB, 10 * GIB)
    replay = replayed(b.finish_segments().build())
    assert replay.recorded.allowed_bytes == 30 * MIB
    assert replay.recorded.allowed_inferred
    assert replay.simulate().failed_events == (2,)
    assert replay.simulate("max_split_size_mb:64").reasons == ("limit_inferred",)
    # Who says how much there is says it of a card of which the process has all.
    found = replay.simulate("max_split_size_mb:64", total_bytes=10 * GIB)
    assert found.reasons == ("request_succeeds",)


def test_a_part_of_the_card() -> None:
    replay = small(30 * MIB, 40 * MIB)
    half = "per_process_memory_fraction:0.5"
    assert replay.simulate(half, total_bytes=140 * MIB).fits
    found = replay.simulate(half, total_bytes=139 * MIB)
    assert (found.fits, found.stopped_event) == (False, 3)
    assert replay.simulate(total_bytes=139 * MIB).fits
    with pytest.raises(mr.UsageError, match="give --total-memory"):
        replay.simulate(half)


def test_what_the_recorder_noted_of_the_card() -> None:
    made = (
        SnapshotBuilder()
        .segment_alloc(BASE, 30 * MIB)
        .alloc(BASE, 30 * MIB)
        .finish_segments()
        .build()
    )
    card = find("A100-40")
    noted = {"name": card.name, "total_bytes": 600 * MIB}  # as a dry run's --total-memory makes it
    replay = replayed({**made, "memreplay": {"cards": [noted]}})
    assert replay.recorded.total_bytes == 600 * MIB - card.context_bytes
    assert replay.simulate().total_bytes == 600 * MIB - card.context_bytes
    assert replay.simulate("per_process_memory_fraction:0.05").fits  # of all of the card
    assert not replay.simulate("per_process_memory_fraction:0.049").fits


def test_what_was_reserved_the_card_had() -> None:
    made = SnapshotBuilder().segment_alloc(BASE, 30 * MIB).finish_segments().build()
    replay = replayed({**made, "memreplay": {"cards": [{"total_bytes": 60 * MIB}]}})
    assert replay.recorded.total_bytes == 30 * MIB


def test_settings_that_there_are_not() -> None:
    with pytest.raises(mr.UsageError, match="there is no allocator setting 'nothing'"):
        small(MIB).simulate("nothing:1")


def test_what_segment_events_are_missing_for_is_not_below_zero() -> None:
    b = SnapshotBuilder().segment_alloc(BASE, 2 * MIB).alloc(BASE, MIB).alloc(BASE + GIB, 50 * MIB)
    assert replayed(b.build()).recorded.outcome.unused_bytes == 0


def test_nothing_at_all() -> None:
    made = {"segments": [segment(BASE, 20 * MIB)], "device_traces": [[]]}
    found = replayed(made).simulate("expandable_segments:True", total_bytes=GIB)
    assert found.outcome.reserved_peak_bytes == 20 * MIB
    assert (found.outcome.segments, found.outcome.driver_allocs) == (1, 0)


def test_a_short_word() -> None:
    found = small(30 * MIB).simulate("expandable_segments:True")
    assert repr(found).startswith("<Simulated: expandable_segments:True, Outcome(reserved_peak_")
    assert "expandable_segments:True" in found._repr_html_()


# --- real snapshots -------------------------------------------------------------------------------

# Segment events are missing in it, as its other numbers say, too.
WITHOUT_EVENTS_OF_SEGMENTS = {"facebookresearch_mosaic__output"}


def test_real_recordings_come_out_as_they_are(corpus_file: Path) -> None:
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
        # A setting that no request meets changes nothing.
        beyond = f"max_split_size_mb:{2**30}"
        if replay.settings.max_split_bytes < 0:
            assert told(replay.simulate(beyond).outcome) == told(replay.simulate().outcome)


def test_what_is_asked_of_real_recordings_stays_the_same(corpus_file: Path) -> None:
    """Other settings change where memory lies, and not how much is asked for."""
    replay = mr.open(corpus_file).replay()
    peak = replay.measure("requested").peak
    for text in ("expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"):
        outcome = replay.simulate(text).outcome
        assert outcome.requested_peak_bytes == peak.bytes
        assert outcome.requested_peak_event == peak.event_index
        assert outcome.active_peak_bytes >= peak.bytes
        assert outcome.reserved_peak_bytes >= outcome.active_peak_bytes


@pytest.mark.parametrize("total", [-1, 0, 1 << 62, 1 << 70])
def test_cards_that_there_are_not(total: int) -> None:
    with pytest.raises(mr.UsageError, match="a card has from 1 to"):
        small(30 * MIB).simulate(total_bytes=total)


def test_what_is_no_setting_and_no_size() -> None:
    replay = small(30 * MIB)
    with pytest.raises(TypeError, match="settings are a text"):
        replay.simulate(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str"):
        replay.simulate(total_bytes="40GiB")  # type: ignore[arg-type]
