"""keying: groups of allocations match groups made with dictionaries over the live set."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
import memreplay._core as _core
from memreplay.analysis.code.operators import backward_of, operator_of
from memreplay.analysis.code.plumbing import LIBRARY, file_rank, ranks
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.groups.ways.base import Known
from memreplay.engine.query import _groups
from memreplay.engine.query._groups import CARRIED, NO_STACK, Keys
from memreplay.engine.replay import _timeline
from memreplay.snapshot.model import Frame
from tests import build
from tests.allocator_strategies import Recording, record, recordings
from tests.build import FrameSpec, SnapshotBuilder
from tests.strategies import traces

Rows = list[tuple[int, int, int, int, int]]


class Asked:
    """One measure of a replay, with the keys of each live allocation, row by row."""

    def __init__(self, snap: mr.Snapshot, device: int, measure: Any = "requested") -> None:
        self.snap = snap
        self.replay = snap.replay(device)
        self.measure = self.replay.measure(measure).native
        self.ranks = ranks(snap.code)
        column = snap.native.column("stack")
        assert not isinstance(column, int)
        self.stacks = memoryview(column).tolist()[self.replay.native.first_row :]
        self.carried_stacks = memoryview(self.replay.native.carried("stack")).tolist()
        self.weights = memoryview(self.measure.weights())
        self.carried_weights = memoryview(self.measure.carried_weights())

    def live(self, event: int) -> list[tuple[bool, int, int, int]]:
        """Return (carried over or not, row, bytes, stack) for each allocation of the live set."""
        allocs, blocks = (memoryview(c).tolist() for c in self.measure.live(event))
        rows = [(False, i, self.weights[i], self.stacks[i]) for i in allocs]
        return rows + [(True, i, self.carried_weights[i], self.carried_stacks[i]) for i in blocks]

    def check(self, keys: Keys, event: int, name_of: Callable[..., object]) -> None:
        sums: Counter[object] = Counter()
        counts: Counter[object] = Counter()
        for carried, row, n_bytes, stack in self.live(event):
            sums[name_of(carried, row, stack)] += n_bytes
            counts[name_of(carried, row, stack)] += 1
        found, total, whole, count = keys.sums(self.measure.live(event), self.measure, 0)
        assert {spelled(keys, row[0]): row[2:4] for row in found} == {
            name: (sums[name], counts[name]) for name in counts
        }
        assert (total, whole, count) == (len(counts), sum(sums.values()), sum(counts.values()))
        assert [row[2:4] for row in found] == sorted((row[2:4] for row in found), reverse=True)
        cut = keys.sums(self.measure.live(event), self.measure, 1)
        assert (cut[0], cut[1:]) == (found[:1], (total, whole, count))

    def stack_name(self, kind: str) -> Callable[[bool, int, int], object]:
        native = self.snap.native

        def name(carried: bool, _row: int, stack: int) -> object:
            if stack == 0:
                return CARRIED if carried else NO_STACK
            if kind == "stack":
                return stack
            if kind == "innermost":
                return native.stack(stack)[0]
            frame = self.measure.label_frame(stack, *self.ranks)
            function, file, _ = native.frame(frame)
            return {"line": frame, "file": file, "function": function}[kind]

        return name

    def keys(self, kind: str) -> Keys:
        return _groups.stack_keys(self.replay.native, kind, *self.ranks)


def spelled(keys: Keys, name: int) -> object:
    """Return a name in plain Python: pairs as tuples of their names."""
    if len(keys.of) < 2:
        return name
    first, second = keys.of
    return (
        spelled(first, memoryview(first.names())[name >> 32]),
        spelled(second, memoryview(second.names())[name & 0xFFFFFFFF]),
    )


def both_of(one: Callable[..., object], two: Callable[..., object]) -> Callable[..., object]:
    return lambda *row: (one(*row), two(*row))


KINDS = ("stack", "innermost", "line", "file", "function")


@given(traces(), st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(0, 2**16))
def test_groups_by_one_and_two_keys_match_dictionaries(
    snapshot: build.Snapshot, kind: str, other: str, seed: int
) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        asked = Asked(snap, device)
        one, two = asked.keys(kind), asked.keys(other)
        both = _groups.pair(one, two)
        by_one, by_two = asked.stack_name(kind), asked.stack_name(other)
        for event in (-1, seed % (asked.replay.events + 1) - 1, asked.replay.events - 1):
            asked.check(one, event, by_one)
            asked.check(both, event, both_of(by_one, by_two))


@given(recordings(max_devices=1), st.randoms(use_true_random=False))
def test_rows_and_sizes_pair_with_stacks(recording: Recording, dice: random.Random) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    assume(snap.devices)
    for measure in ("requested", "active"):
        asked = Asked(snap, snap.devices[0], measure)
        replay = asked.replay
        of_event = [dice.randrange(4) for _ in range(replay.events)]
        of_base = [dice.randrange(4) for _ in asked.carried_stacks]
        rows = _groups.row_keys(replay.native, array("I", of_event), array("I", of_base))
        sizes = _groups.size_keys(asked.measure)
        files = asked.keys("file")
        event = dice.randint(-1, replay.events - 1)

        def row_name(carried: bool, row: int, _stack: int) -> object:
            return of_base[row] if carried else of_event[row]  # noqa: B023

        def size_name(carried: bool, row: int, _stack: int) -> object:
            return (asked.carried_weights if carried else asked.weights)[row].bit_length() - 1  # noqa: B023

        file_name = asked.stack_name("file")
        asked.check(rows, event, row_name)
        asked.check(sizes, event, size_name)
        three = _groups.pair(_groups.pair(rows, files), sizes)
        for _ in range(2):  # every group is known the second time
            asked.check(
                three,
                event,
                both_of(both_of(row_name, file_name), size_name),
            )


def test_renamed_groups_are_merged() -> None:
    asked = Asked(mr.open(build.dump(record(3, steps=300).snapshot)), 0)
    for keys in (asked.keys("stack"), _groups.size_keys(asked.measure)):
        n = keys.find_all()
        parity = _groups.renamed(keys, array("Q", [i % 2 for i in range(n)]))
        found, total, whole, count = parity.sums(asked.measure.live(200), asked.measure, 0)
        mine = keys.sums(asked.measure.live(200), asked.measure, 0)
        assert (whole, count) == mine[2:]
        for name, _, n_bytes, _, _ in found:
            assert n_bytes == sum(row[2] for row in mine[0] if row[1] % 2 == name)
        assert total == len({row[1] % 2 for row in mine[0]})


def test_groups_of_equal_size_are_ordered_by_name() -> None:
    builder = SnapshotBuilder()
    for i in range(50):
        builder.alloc(i, 10, frames=[(f"f{i}", "a.py", i)])
    asked = Asked(mr.open(build.dump(builder.build())), 0)
    rows, *_ = asked.keys("function").sums(asked.measure.live(49), asked.measure, 0)
    assert [asked.snap.text(row[0]) for row in rows] == [f"f{i}" for i in range(50)]


def test_function_twice_in_one_stack_counts_once() -> None:
    layer = ("linear", "layers.py", 5)
    builder = SnapshotBuilder().alloc(1, 10, frames=[layer, layer, ("main", "train.py", 9)])
    asked = Asked(mr.open(build.dump(builder.build())), 0)
    ((name, _, n_bytes, count, _),), *_ = asked.keys("function").sums(
        asked.measure.live(0), asked.measure, 0
    )
    assert (asked.snap.text(name), n_bytes, count) == ("linear", 10, 1)


def test_runs_of_events_are_groups() -> None:
    builder = SnapshotBuilder().free_completed(1 << 30, 7)
    for i in range(1, 6):
        builder.alloc(i << 9, i)
    asked = Asked(mr.open(build.dump(builder.build())), 0)
    keys = _groups.run_keys(asked.replay.native, [(2, 10), (4, 11), (5, 12)], 9)
    found, *_ = keys.sums(asked.measure.live(5), asked.measure, 0)
    assert {row[0]: row[2] for row in found} == {9: 1, 10: 2 + 3, 11: 4, 12: 5}
    found, *_ = keys.sums(asked.measure.live(-1), asked.measure, 0)
    assert {row[0]: row[2] for row in found} == {9: 7}


@given(traces(), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_selected_groups_have_their_own_measure(
    snapshot: build.Snapshot, kind: str, dice: random.Random
) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        asked = Asked(snap, device)
        keys = asked.keys(kind)
        wanted = bytes(dice.randrange(2) for _ in range(keys.find_all()))
        kept = keys.keep(_timeline.requested_measure(asked.replay.native), wanted)
        series = [kept.start_bytes, *memoryview(kept.usage()).tolist()]
        for event in range(-1, asked.replay.events):
            found, *_ = keys.sums(asked.measure.live(event), asked.measure, 0)
            assert series[event + 1] == sum(row[2] for row in found if wanted[row[1]])


CODE: tuple[FrameSpec, ...] = (
    ("forward", "model.py", 1),
    ("forward", "model.py", 2),
    ("main", "train.py", 3),
    ("rearrange", "/v/site-packages/einops/einops.py", 4),
)
PLUMBING: tuple[FrameSpec, ...] = (
    ("at::_ops::mm::call(at::Tensor)", "??", 0),
    ("at::_ops::mm::redispatch(c10::DispatchKeySet)", "Mm.cpp", 5),
    ("at::_ops::empty::call()", "??", 0),
    ("torch::autograd::generated::MmBackward0::apply(int)", "??", 0),
    ("torch::autograd::AccumulateGrad::apply(int)", "engine.cpp", 9),
    ("at::native::mm", "??", 0),
    ("_call_impl", "/v/site-packages/torch/nn/modules/module.py", 6),
)


def looks(frames: list[FrameSpec]) -> object:
    """Return a stack's displayed name, computed by the slow functions that reports use."""
    spelled = [Frame(*frame) for frame in frames]
    code = [i for i, frame in enumerate(spelled) if file_rank(frame.file) <= LIBRARY]
    if code:
        return operator_of(spelled[: code[0]]), [spelled[i] for i in code]
    node, operator = backward_of(spelled), operator_of(spelled)
    return (node, operator) if node or operator else spelled


@given(
    st.lists(
        st.lists(st.sampled_from(CODE + PLUMBING + PLUMBING), min_size=1, max_size=6),
        min_size=1,
        max_size=30,
    )
)
def test_indistinguishable_stacks_are_one_group(stacks: list[list[FrameSpec]]) -> None:
    builder = SnapshotBuilder()
    for i, frames in enumerate(stacks):
        builder.alloc(i << 9, 1 << i, frames=frames)
    snap = mr.open(build.dump(builder.build()))
    asked = Asked(snap, 0)
    keys = Dimensions(Known(snap, fold=True)).keys(snap.replay(0).measure(), "stack")
    found, total, whole, count = keys.sums(asked.measure.live(len(stacks) - 1), asked.measure, 0)
    mine: dict[str, int] = {}
    for i, frames in enumerate(stacks):
        mine[repr(looks(frames))] = mine.get(repr(looks(frames)), 0) + (1 << i)
    assert sorted(mine.values()) == sorted(row[2] for row in found)
    assert (total, whole, count) == (len(mine), (1 << len(stacks)) - 1, len(stacks))
    for name, _, n_bytes, _, _ in found:
        frames = [(f.function, f.file, f.line) for f in snap.stack(name)]
        assert mine[repr(looks(frames))] == n_bytes


def test_modules_are_paths_of_forward_functions() -> None:
    site = "/v/lib/python3.12/site-packages/torch/nn/modules/"
    frames = [
        ("gelu", site + "activation.py", 3),
        ("forward", "mlp.py", 7),
        ("_call_impl", site + "module.py", 9),
        ("forward", site + "container.py", 5),
        ("forward", "block.py", 8),
        ("main", "train.py", 1),
    ]
    builder = SnapshotBuilder().alloc(512, 5, frames=frames).alloc(1024, 7, frames=frames[5:])
    asked = Asked(mr.open(build.dump(builder.build())), 0)
    native = asked.snap.native
    files = [asked.snap.frame(i).file for i in range(native.n_frames)]
    block, mlp = files.index("block.py"), files.index("mlp.py")
    # One frame may be replaced by another.
    for stands in (mlp, files.index("train.py")):
        forwards = array("I", [_core.ABSENT_ID] * native.n_frames)
        forwards[block], forwards[mlp] = block, stands
        keys = _groups.stack_keys(asked.replay.native, "modules", *asked.ranks, forwards)
        found, *_ = keys.sums(asked.measure.live(1), asked.measure, 0)
        assert [keys.path(row[0]) for row in found] == [(), (block, stands)]


@given(traces(), st.integers(0, 63), st.randoms(use_true_random=False))
def test_first_matching_rule_wins(
    snapshot: build.Snapshot, always: int, dice: random.Random
) -> None:
    snap = mr.open(build.dump(snapshot))
    frames = snap.native.n_frames
    anywhere = [dice.getrandbits(6) & dice.getrandbits(6) for _ in range(frames)]
    own = [dice.getrandbits(6) & dice.getrandbits(6) for _ in range(frames)]
    for device in snap.devices:
        asked = Asked(snap, device)
        native = asked.replay.native
        by_frames = _groups.rule_keys(
            native, array("Q", anywhere), array("Q", own), always, *asked.ranks
        )
        of_event = [dice.randrange(3) for _ in range(asked.replay.events)]
        rows = _groups.row_keys(native, array("I", of_event), 2)
        rows.find_all()
        of_number = [dice.getrandbits(6) for _ in range(3)]
        masks = _groups.renamed(
            rows, array("Q", [of_number[name] for name in memoryview(rows.names()).tolist()])
        )
        first = _groups.first_rule(_groups.rules_of_both(by_frames, masks))

        def set_of(carried: bool, row: int, stack: int) -> int:
            found = always
            for frame in snap.native.stack(stack):
                found |= anywhere[frame]
            if stack:
                found |= own[asked.measure.label_frame(stack, *asked.ranks)]  # noqa: B023
            return found & of_number[2 if carried else of_event[row]]  # noqa: B023

        def lowest(*row: Any) -> int:
            found = set_of(*row)
            return (found & -found).bit_length() - 1 if found else _groups.NO_RULE

        for event in range(-1, asked.replay.events):
            asked.check(first, event, lowest)


def test_invalid_arguments_are_rejected() -> None:
    asked = Asked(mr.open(build.dump(SnapshotBuilder().alloc(512, 1).build())), 0)
    other = Asked(mr.open(build.dump(SnapshotBuilder().alloc(512, 1).build())), 0)
    replay, keys = asked.replay.native, asked.keys("stack")
    with pytest.raises(TypeError):
        Keys()
    with pytest.raises(KeyError):
        asked.keys("colour")
    for bad in ((b"", asked.ranks[1]), (asked.ranks[0], b"")):
        with pytest.raises(ValueError, match="ranks"):
            _groups.stack_keys(replay, "file", *bad)
    with pytest.raises(ValueError, match="32-bit numbers"):
        _groups.stack_keys(replay, "modules", *asked.ranks)
    with pytest.raises(ValueError, match="32-bit numbers"):
        _groups.row_keys(replay, array("I", [1, 2]), 0)
    with pytest.raises(ValueError, match="different replays"):
        _groups.pair(keys, other.keys("stack"))
    with pytest.raises(ValueError, match="another replay"):
        keys.sums(other.measure.live(0), other.measure, 0)
    keys.find_all()
    with pytest.raises(ValueError, match="64-bit numbers"):
        _groups.renamed(keys, array("Q", [1, 2, 3]))
    with pytest.raises(ValueError, match="groups needs 2 numbers"):
        keys.keep(asked.measure, b"")
    with pytest.raises(IndexError):
        keys.path(0)
