"""Tests of tracker.pyx and _tracker.pyx: the kind of each allocation, and its place in the
traces.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memreplay.engine.record import _tracker
from tests.oracle_recording import TOLD, Kind
from tests.strategies import packed
from tests.unit.engine.record.world import NODES, PLACES, THREADS, World

ADDRESSES = (0x7F00_0000_0000, 0x7F00_0000_0200, 0x7F00_0010_0000, 2**63 + 0x200, 2**64 - 512)
CALLS = (
    *("taken",) * 6,
    *("let_go",) * 5,
    *("enter", "leave") * 2,
    *("run", "node", "work") * 3,
    *("backward", "optimize", "mark", "next") * 2,
    *("recompute", "give", "step", "resume", "evaluate"),
)
EARLIER_US = 5_000  # how much earlier than its notes an event can be, if other threads run


@contextmanager
def world(*, shared: bool = False) -> Iterator[World]:
    made = World(shared=shared)
    try:
        yield made
    finally:
        made.close()


class Traced:
    """A scripted program, and the trace that PyTorch would record."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trace: list[dict[str, Any]] = []
        self.made: list[Any] = []  # the allocation of each event
        self.tasks = 0
        self.recording = True  # whether the trace continues
        self.odd = False  # whether an unannounced block was marked

    def event(self, action: str, address: int, time_us: int, made: Any = None) -> None:
        if self.recording:
            self.trace.append({"action": action, "addr": address, "size": 1, "time_us": time_us})
            self.made.append(made)

    def do(self, call: str, name: str, address: int, which: int) -> None:
        world, thread = self.world, self.world.program.thread(name)
        if call == "taken":
            made, now = world.taken(name, address)
            self.event("alloc", address, now, made)
        elif call == "let_go":
            world.let_go(name, address)
            now = time.time_ns() // 1000
            self.event("free_requested", address, now)
            self.event("free_completed", address, now)
        elif call == "mark":
            known = {one.address for one in world.program.allocations}
            self.odd |= address in known and address not in world.program.live
            world.mark(address, "inputs" if which == 8 else TOLD[which % 8], which % 3)
        elif call == "enter" and (name == "main" or thread.backward >= 0 or thread.recomputing):
            # Nodes are identified by numbers of the thread that creates them: this one.
            world.enter(name, 1 + which)
        elif call == "leave":
            modules = thread.modules
            world.leave(name, modules[-1 - which % len(modules)] if modules and which else 99)
        elif call == "node":
            place = which % PLACES
            if place not in world.autograd.running.values() and not self.inside("main"):
                world.node(place)
        elif call == "run":
            places = sorted(world.autograd.nodes)
            name = self.in_backward(name)
            if name:
                world.run(name, places[which % len(places)] if places and which else None)
        elif call == "work":
            name = self.in_backward(name)
            if name:
                self.do("let_go" if address in world.program.live else "taken", name, address, 0)
        elif call == "backward":
            if thread.backward < 0:
                self.tasks += 1
                world.backward(name, self.tasks - 1)
            elif not which % 3:
                world.run(name, None)
                world.backward(name, -1)
        elif call == "optimize":
            world.optimize(name, not thread.optimizing or not which % 4)
        elif call == "evaluate":
            world.evaluate(name, which % 3)
        elif call == "recompute":
            world.recompute(name, which == 1)
        elif call == "give":
            world.give(name, "" if which % 4 else TOLD[which % 8])
        elif call == "next":
            self.do(("optimize", "backward", "leave")[which % 3], name, address, 1 + which)
        elif call == "step":
            world.step()
        elif call == "resume":
            world.resume()

    def in_backward(self, name: str) -> str:
        """Return this thread if it's in a backward pass, else another that is, or an empty name."""
        threads = [one for one in THREADS if self.world.program.thread(one).backward >= 0]
        return name if name in threads else threads[-1] if threads else ""

    def inside(self, name: str) -> bool:
        """Return whether nodes created in this thread belong to a recomputation."""
        thread = self.world.program.thread(name)
        return thread.backward >= 0 or bool(thread.recomputing)


@st.composite
def calls(draw: st.DrawFn, *most: int) -> list[tuple[Any, ...]]:
    """Draw longer lists of choices. Hypothesis prefers short lists, which reach few states."""
    one = packed(CALLS, ("main", "main", *THREADS), (0, *ADDRESSES), range(9))
    count = draw(st.sampled_from(most))
    return draw(st.lists(one, min_size=count, max_size=count))


@given(calls(6, 40, 120, 120), calls(0, 12), st.booleans(), st.sampled_from(THREADS), st.data())
def test_allocations_match_the_oracle(
    first: Any, later: Any, shared: bool, asking: str, data: st.DataObject
) -> None:
    with world(shared=shared) as made:
        traced = Traced(made)
        for call in first:
            traced.do(*call)
        sure = len(made.program.allocations)
        assert _tracker.noted() == sure
        # Other threads keep running while the trace is being read.
        traced.recording = False
        for call in later:
            traced.do(*call)
        trace, allocations = traced.trace, traced.made
        for event in trace:
            event["time_us"] -= EARLIER_US
        # A pool was restored, and blocks were taken without a notification.
        for at in sorted(data.draw(st.sets(st.integers(0, len(trace)), max_size=2)), reverse=True):
            event = {"action": "alloc", "addr": data.draw(st.sampled_from(ADDRESSES))}
            trace.insert(at, {**event, "time_us": time.time_ns() // 1000 + 3_600_000_000})
            allocations.insert(at, None)
            # A marked block may be one that was taken without a notification.
            traced.odd |= any(not one.born_us for one in made.program.allocations)
        # A ring buffer has lost the first events.
        lost = data.draw(st.sampled_from((0, 0, len(trace) // 3)))
        trace, allocations = trace[lost:], allocations[lost:]
        timed = data.draw(st.sampled_from((True, True, False)))
        if not timed:
            for event in trace:
                del event["time_us"]
        cut = data.draw(st.sampled_from((0, len(trace) // 2)))
        traces = [trace[:cut], trace[cut:]]
        assume(not made.slow)
        found, before = made.joined(asking, traces, sure)
        assert (found, before) == made.program.joined(asking, traces, sure)
        assert made.autograd.gave_back()

        # However the oracle decides, each event belongs to one allocation.
        if cut == 0 and timed and not traced.odd:
            thread = made.program.thread(asking)
            assert found[1] == [
                None if one is None else made.program.kind(thread, one, ends=False)
                for one in allocations
            ]


def kind_of(made: World, name: str = "main") -> Kind | None:
    """Return the kind of the only allocation, as seen by this thread."""
    return made.joined(name, [[{"action": "alloc", "addr": 512}]], 1)[0][0][0]


# --- each rule by itself --------------------------------------------------------------------------


def test_module_allocations_freed_before_backward_are_temporary() -> None:
    with world() as made:
        made.enter("main", 3)
        made.taken("main", 512)
        assert kind_of(made) == ("activations", "forward", 3)
        made.leave("main", 3)
        made.let_go("main", 512)
        assert kind_of(made) == ("temporary", "forward", 3)


def test_module_output_is_not_an_input_of_another() -> None:
    with world() as made:
        made.taken("main", 512)
        made.enter("main", 3)
        made.taken("main", 1024)
        for address in (512, 1024):
            made.mark(address, "inputs", 0)
        trace = [{"action": "alloc", "addr": address} for address in (512, 1024)]
        found, _ = made.joined("main", [trace], 2)
        assert [one.category for one in found[0] if one] == ["inputs", "activations"]


def test_allocations_that_live_until_backward_are_activations() -> None:
    with world() as made:
        made.enter("main", 3)
        made.taken("main", 512)
        made.leave("main", 3)
        made.backward("autograd", 0)
        made.let_go("autograd", 512)
        assert kind_of(made) == ("activations", "forward", 3)


def test_forward_allocations_that_outlive_steps_are_categorized_as_other() -> None:
    with world() as made:
        made.enter("main", 3)
        made.taken("main", 512)
        made.step()
        assert kind_of(made) == ("activations", "forward", 3)
        made.step()
        assert kind_of(made) == ("other", "forward", 3)


def test_backward_allocations_that_outlive_steps_are_categorized_as_other() -> None:
    """PyTorch before 2.15 keeps a cuBLAS workspace for the thread of the backward pass."""
    with world() as made:
        made.backward("autograd", 0)
        made.run("autograd", None)
        made.taken("autograd", 512)
        made.backward("autograd", -1)
        made.step()
        assert kind_of(made) == ("autograd detail", "backward", 0)
        made.step()
        assert kind_of(made) == ("other", "backward", 0)


def test_recomputed_allocations_that_outlive_steps_are_categorized_as_other() -> None:
    with world() as made:
        made.backward("autograd", 0)
        made.recompute("autograd", True)
        made.taken("autograd", 512)
        made.recompute("autograd", False)
        made.backward("autograd", -1)
        made.step()
        assert kind_of(made) == ("activations", "recomputation", 0)
        made.step()
        assert kind_of(made) == ("other", "recomputation", 0)


def test_node_is_identified_by_its_number() -> None:
    with world() as made:
        for module in (1, 2):
            made.enter("main", module)
            made.node(0)
            made.leave("main", module)
            made.backward("autograd", module)
            made.run("autograd", 0)
            made.taken("autograd", 512 * module)
            made.run("autograd", None)
            made.backward("autograd", -1)
        trace = [{"action": "alloc", "addr": 512 * module} for module in (1, 2)]
        found, _ = made.joined("main", [trace], 2)
        assert [one.module for one in found[0] if one] == ([1, 2] if NODES else [0, 0])
        # Another allocation at the same address ends it.
        made.backward("autograd", 3)
        made.run("autograd", 0)
        made.let_go("autograd", 512)
        made.let_go("autograd", 1024)
        found, _ = made.joined("main", [trace], 2)
        last = "temporary" if NODES else "autograd detail"
        assert [one.category for one in found[0] if one] == ["autograd detail", last]


def test_recording_ignores_the_state_of_the_previous_recording() -> None:
    for name in THREADS[:2]:
        with world() as made:
            made.enter(name, 5)
            made.optimize(name, True)
            made.recompute(name, True)
            made.give(name, "communication")
        with world() as made:
            assert made.native(name, _tracker.optimizing) == 0
            assert made.native(name, _tracker.depth) == 0
            made.taken(name, 512)
            assert kind_of(made) == ("other", "start", 0)


def test_modules_below_the_depth_limit_count() -> None:
    with world() as made:
        for module in range(300):
            made.enter("main", module)
        assert _tracker.depth() == 300
        for module in range(299, 250, -1):
            made.leave("main", module)
        # Leaving a module also leaves all modules inside it.
        assert _tracker.depth() < 300
        made.leave("main", 7)
        assert _tracker.depth() == 7
        assert _tracker.module() == 6


def test_old_freed_allocations_are_forgotten() -> None:
    _tracker.begin(0)
    try:
        _tracker.track_alloc(1)
        for address in range(2, 140_000):
            _tracker.track_alloc(address)
            _tracker.track_free(address)
        assert _tracker.noted() < 70_000
        assert _tracker.dropped() == 0
        assert _tracker.count() == 1 + 2 * 139_998
        found, before = _joined([[]], _tracker.noted())
        assert list(before) == [1]
        assert found == [[]]
    finally:
        _tracker.end()


def _joined(traces: Any, sure: int) -> Any:
    from tests.unit.engine.record.world import read

    return read(*_tracker.joined(traces, sure))


def test_block_with_only_a_free_event_was_carried_over() -> None:
    with world() as made:
        made.taken("main", 512)
        made.let_go("main", 512)
        for action in ("free_requested", "free_completed", "free"):
            found, before = made.joined("main", [[{"action": action, "addr": 512}]], 1)
            assert found == [[None]]
            assert list(before) == [512]
        assert made.joined("main", [[{"action": "segment_free", "addr": 512}]], 1)[1] == {}
        assert made.joined("main", [[]], 1)[1] == {}


def test_trace_may_grow_while_it_is_being_read() -> None:
    with world() as made:
        made.taken("main", 512)
        _, now = made.taken("main", 512)
        early, late = {"time_us": now}, {"time_us": now - 10_000}
        event = {"action": "alloc", "addr": 512}
        assert made.joined("main", [[event]], 1)[0] == [[Kind("temporary", "start", 0)]]
        assert made.joined("main", [[{**event, **early}]], 1)[0] == [[Kind("other", "start", 0)]]
        assert made.joined("main", [[{**event, **late}]], 1)[0] == [[Kind("temporary", "start", 0)]]


@pytest.mark.parametrize(
    "trace",
    [[{}], [{"action": "alloc"}], [{"action": "alloc", "addr": "x"}], [None], [{"action": 3}]],
)
def test_malformed_events_are_errors(trace: Any) -> None:
    with world() as made:
        made.taken("main", 512)
        if trace == [{"action": 3}]:
            assert made.joined("main", [trace], 1)[0] == [[None]]
        else:
            with pytest.raises((KeyError, TypeError)):
                made.joined("main", [trace], 1)


THREADS_AT_WORK = """
import sys, threading
from memreplay.engine.record import _tracker
_tracker.begin(1000)
go_on = True
def work(base):
    while go_on:
        for i in range(64):
            _tracker.track_alloc(base + i * 512)
        for i in range(64):
            _tracker.track_free(base + i * 512)
workers = [threading.Thread(target=work, args=(n << 40,)) for n in range(1, 4)]
sys.setswitchinterval(1e-5)
for one in workers:
    one.start()
trace = [{"action": "alloc", "addr": 1 << 40, "size": 1, "time_us": _tracker.now_us()}]
for _ in range(300):
    kinds, columns, addresses, of_addresses = _tracker.joined([trace], _tracker.noted())
    assert len(addresses) == 2 * len(of_addresses)
go_on = False
for one in workers:
    one.join()
print("ended")
"""


def test_threads_that_continue_and_join_wait_for_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS_AT_WORK],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


def test_indexes_into_the_function_table_are_checked() -> None:
    for places in ((-1, 0), (0, 256)):
        with pytest.raises(ValueError, match="no such slot"):
            _tracker.interpreter(*places, True)
    assert all(_tracker.functions())
