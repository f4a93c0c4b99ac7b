"""Tests of render/holders.py: a reader can tell the rows of a table of memory holders apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.code.naming import without_arguments
from memreplay.commands.peak.find import peak_report
from memreplay.commands.peak.result import DevicePeak
from memreplay.render.document import Place, Row
from memreplay.render.holders import distinguish_rows, group_row, group_rows, place_of
from memreplay.snapshot.model import Frame, Group
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

EINOPS = "/v/lib/python3.12/site-packages/einops/"
OPERATOR: FrameSpec = ("at::_ops::einsum::call(at::Tensor)", "??", 0)
EINSUM: FrameSpec = ("einsum", EINOPS + "_backends.py", 288)
LINEAR: FrameSpec = ("forward", "/home/ana/layers.py", 22)
BLOCK: FrameSpec = ("forward", "/home/ana/block.py", 7)
MODEL: FrameSpec = ("forward", "/home/ana/model.py", 9)
MAIN: FrameSpec = ("main", "/home/ana/train.py", 30)
NODE: FrameSpec = ("torch::autograd::generated::BmmBackward0::apply(int)", "??", 0)
BMM: FrameSpec = ("at::_ops::bmm::call(at::Tensor)", "??", 0)


def peak_of(*stacks: tuple[FrameSpec, ...], fold: bool = True, top: int = 20) -> DevicePeak:
    builder = SnapshotBuilder()
    for i, frames in enumerate(stacks):
        builder.alloc(i << 20, 1 << i, frames=frames)
    snap = mr.open(build.dump(builder.build()))
    (device,) = peak_report(snap, fold=fold, top=top).devices
    return device


def lines(row: Row) -> list[str]:
    """Return a row's call site and the text below it, unshortened."""
    places = [row.cells[-1], *(place for place, _ in row.below)]
    return [
        f"{place.function} {place.file}:{place.line} {place.note}".strip()
        if isinstance(place, Place)
        else str(place)
        for place in places
    ]


def shown(device: DevicePeak) -> list[list[str]]:
    rows = group_rows(device.groups, "stack", all_frames=False)
    return [lines(row) for row in rows]


def test_library_called_by_user_code_is_named_with_its_caller() -> None:
    device = peak_of((OPERATOR, EINSUM, LINEAR, BLOCK, MODEL, MAIN))
    (group,) = device.groups
    assert group.label == "forward /home/ana/layers.py:22 aten::einsum"
    assert (group.user, group.libraries) == ((2, 3, 4, 5), (1,))
    assert shown(device) == [
        [
            "forward /home/ana/layers.py:22 aten::einsum",
            f"via einops: einsum {EINOPS}_backends.py:288",
            "forward /home/ana/block.py:7",
        ]
    ]


def test_library_only_stack_belongs_to_the_library() -> None:
    device = peak_of((OPERATOR, EINSUM, ("einsum", EINOPS + "einops.py", 916)))
    (group,) = device.groups
    assert (group.user, group.libraries) == ((1, 2), ())
    assert shown(device)[0][0] == f"einsum {EINOPS}_backends.py:288 aten::einsum"


def test_library_that_calls_user_code_is_not_named() -> None:
    runner: FrameSpec = ("run", "/v/lib/python3.12/site-packages/lightning/loop.py", 3)
    device = peak_of((OPERATOR, LINEAR, runner, MAIN))
    assert shown(device) == [
        ["forward /home/ana/layers.py:22 aten::einsum", "main /home/ana/train.py:30"]
    ]


def test_stacks_that_differ_only_in_plumbing_are_merged() -> None:
    call: FrameSpec = ("_call_impl", "/v/lib/python3.12/site-packages/torch/nn/module.py", 1)
    alike = [
        (OPERATOR, LINEAR, MAIN),
        (("at::empty", "??", 0), OPERATOR, LINEAR, call, MAIN),
    ]
    (one,) = peak_of(*alike).groups
    assert (one.bytes, one.count) == (1 + 2, 2)
    assert len(peak_of(*alike, fold=False).groups) == 2
    backward = [(BMM, NODE), (("at::mul", "??", 0), BMM, NODE), (BMM,)]
    device = peak_of(*backward)
    assert [(group.bytes, group.count) for group in device.groups] == [(4, 1), (3, 2)]
    assert shown(device) == [
        ["aten::bmm (PyTorch's own) :0"],
        ["BmmBackward0 (autograd) :0 aten::bmm"],
    ]


def test_rows_are_merged_before_they_are_cut() -> None:
    same = [(("at::f", f"f{i}.cpp", i), LINEAR, MAIN) for i in range(5)]
    device = peak_of(*same[:3], (BLOCK, MAIN), *same[3:], top=1)
    (one,) = device.groups
    assert (one.bytes, one.count) == (0b110111, 5)
    assert (device.rest_bytes, device.rest_count, device.groups_total) == (0b1000, 1, 2)


def test_ambiguous_rows_show_the_first_different_frame() -> None:
    def stack(line: int, *more: FrameSpec) -> tuple[FrameSpec, ...]:
        return (LINEAR, BLOCK, MODEL, MAIN, ("run", "/home/ana/run.py", line), *more)

    other: FrameSpec = ("start", "/home/ana/start.py", 1)
    device = peak_of(stack(5), stack(6), stack(6, other), (LINEAR, BLOCK, MODEL), (MAIN,))
    same = [
        "forward /home/ana/layers.py:22",
        "forward /home/ana/block.py:7",
        "forward /home/ana/model.py:9",
    ]
    run = ["… main /home/ana/train.py:30", "… run /home/ana/run.py:6"]
    assert shown(device) == [
        ["main /home/ana/train.py:30"],
        same,
        [*same, *run, "… start /home/ana/start.py:1"],
        [*same, *run],
        [*same, run[0], "… run /home/ana/run.py:5"],
    ]


def test_plumbing_distinguishes_rows_with_equal_code() -> None:
    device = peak_of((OPERATOR, LINEAR, MAIN), (BMM, OPERATOR, LINEAR, MAIN), fold=False)
    assert sorted(shown(device)) == [
        [
            "forward /home/ana/layers.py:22 aten::einsum",
            "main /home/ana/train.py:30",
            f"… {without_arguments(frame[0])} :0",
        ]
        for frame in (BMM, OPERATOR)
    ]


FRAMES = (OPERATOR, BMM, NODE, EINSUM, LINEAR, BLOCK, MODEL, MAIN)


@given(
    st.lists(st.lists(st.sampled_from(FRAMES), max_size=8).map(tuple), min_size=1, max_size=20),
    st.booleans(),
)
def test_rows_are_distinguishable_and_add_up(
    stacks: list[tuple[FrameSpec, ...]], fold: bool
) -> None:
    device = peak_of(*stacks, fold=fold, top=0)
    rows = [tuple(row) for row in shown(device)]
    assert len(set(rows)) == len(rows) == device.groups_total
    assert sum(group.bytes for group in device.groups) == (1 << len(stacks)) - 1


def test_rows_of_other_tables_keep_their_cells() -> None:
    group = Group(
        label="f a.py:1",
        bytes=10,
        count=1,
        share=1.0,
        frames=(Frame("f", "a.py", 1), Frame("g", "b.py", 2)),
        user=(0,),
    )
    other = replace(group, frames=(group.frames[0], Frame("h", "c.py", 3)))
    rows = [group_row(one, "stack", all_frames=False, more=("x",)) for one in (group, other)]
    apart = distinguish_rows(rows, [group, other])
    assert [row.cells for row in apart] == [row.cells for row in rows]
    assert [lines(row)[-1] for row in apart] == ["… g b.py:2", "… h c.py:3"]


@pytest.mark.parametrize("by", ["file", "category", "pool"])
def test_text_that_is_not_code_is_unchanged(by: str) -> None:
    groups = [
        Group(label="a", bytes=10, count=1, share=0.5),
        Group(label="b", bytes=10, count=1, share=0.5),
    ]
    rows = group_rows(groups, by, all_frames=False)
    assert rows == [group_row(group, by, all_frames=False) for group in groups]


@pytest.mark.parametrize(
    "function, shown",
    [
        (
            "at::native::copy_(at::Tensor&, std::function<void (int)> const&) const",
            "at::native::copy_",
        ),
        ("foo::{lambda(int)#1}::operator()(int) const", "foo::{lambda(int)#1}::operator()"),
        ("torch::unwind::unwind()", "torch::unwind::unwind"),
        ("plain", "plain"),
        ("broken)", "broken)"),
        ("(all)", "(all)"),
        ("??", "??"),
    ],
)
def test_functions_of_shared_libraries_are_shortened(function: str, shown: str) -> None:
    """An offset into a library isn't a line, and signatures are too long to print."""
    for file in ("/site/torch/lib/libtorch_cpu.so", "/lib/libc.so.6"):
        place = place_of(Frame(function, file, 34082790))
        assert (place.function, place.file, place.line) == (shown, file, 0)
    assert place_of(Frame(function, "x.py", 7)).line == 7
