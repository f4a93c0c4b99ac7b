"""Tests of analysis/code/naming.py: a group has the same name in every output."""

from __future__ import annotations

from threading import Lock

from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.code.naming import Name, cell_of
from memreplay.explore.explored import Explored
from memreplay.export.tables.joined import FLAT, Joined, Source
from memreplay.export.viewers.stack_names import frame_name
from memreplay.export.viewers.weighted import stacks_report
from memreplay.gating.find import _cause
from memreplay.gating.messages import cause_name
from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.render.holders import group_row
from tests import build
from tests.build import FrameSpec, SnapshotBuilder
from tests.unit.export.page.reading import Read

CELL = "/tmp/ipykernel_114/3105878423.py"
SITE = "/root/miniconda3/lib/python3.10/site-packages/"
SO = "/v/site-packages/torch/lib/libtorch_cpu.so"
# Stacks from real snapshots, innermost frame first, and their names.
SOFTMAX: FrameSpec = ("at::_ops::_softmax::call(at::Tensor const&, long, bool)", "??", 0)
EMPTY: FrameSpec = ("at::_ops::empty_memory_format::call(c10::ArrayRef<long>)", "??", 0)
IMPL: FrameSpec = ("at::native::structured_sum_out::impl(at::Tensor const&)", SO, 34082790)
SUM: FrameSpec = ("at::_ops::sum_dim_IntList::redispatch(c10::DispatchKeySet)", "??", 0)
NODE: FrameSpec = ("torch::autograd::generated::AddmmBackward0::apply(std::vector<>&&)", "??", 0)
MM: FrameSpec = ("at::_ops::mm::call(at::Tensor const&)", "??", 0)
THREAD: FrameSpec = ("torch::autograd::Engine::thread_init(int)", "??", 0)
LLAMA: FrameSpec = ("forward", SITE + "transformers/modeling_llama.py", 649)
IN_CELL: FrameSpec = ("<module>", CELL, 21)
TRAIN: FrameSpec = ("train", "/home/ana/train.py", 30)
NAMES: dict[tuple[FrameSpec, ...], Name] = {
    (EMPTY, SOFTMAX, TRAIN): Name("train", "/home/ana/train.py", 30, "aten::_softmax"),
    (TRAIN,): Name("train", "/home/ana/train.py", 30),
    (EMPTY, SOFTMAX, LLAMA, IN_CELL): Name("", "cell 3105878423", 21, "aten::_softmax"),
    (LLAMA,): Name("forward", SITE + "transformers/modeling_llama.py", 649),
    (EMPTY, MM, NODE, THREAD): Name("AddmmBackward0 (autograd)", note="aten::mm"),
    (EMPTY, IMPL, SUM, THREAD): Name("aten::sum_dim_IntList (PyTorch's own)"),
    (IMPL, THREAD): Name("at::native::structured_sum_out::impl", SO),
}


def snapshot(*, python: bool = False) -> mr.Snapshot:
    made = SnapshotBuilder()
    for i, frames in enumerate([(TRAIN,)] if python else NAMES, 1):
        made.alloc(i << 20, 512 << (10 - i), frames=list(frames))
    made.alloc(99 << 20, 512, frames=[])
    return mr.open(build.dump(made.build()))


def test_every_output_uses_the_same_names() -> None:
    snap = snapshot()
    names = list(NAMES.values())
    (device,) = mr.peak(snap, top=0).devices
    groups = device.groups[:-1]  # the last group has no stack

    # JSON
    assert [one.label for one in groups] == [name.words for name in names]

    # Text output, and the cause that gate reports.
    for one, name in zip(groups, names, strict=True):
        place = group_row(one, "stack", all_frames=False).cells[-1]
        assert place == Place.of(name)
        cause = _cause(one, 1)
        if cause.file:
            assert cause_name(cause) == replace(name, note="")
        else:
            assert cause.label == name.words

    # The explorer
    explored = Explored(snap)
    look = replace(explored.first_look(0), view="groups")
    rows = explored.rows(look)
    assert [rows.line(i).places[0] for i in range(len(names))] == [Place.of(name) for name in names]

    # The page
    page = Read(snap)
    (stacks,) = (one for one in page.data.devices[0].groups if one.way == "stack")
    shown = {lines[0] for lines in page.lines(stacks)}
    assert shown >= {place_text(Place.of(name)) for name in names}

    # SQL and tables: the call site as a column
    flat = Joined(FLAT, (Source(snap, None),), (), Lock())
    found = [row for batch in flat.batches() for row in batch.to_pylist()]
    assert [(row["function"], row["line"]) for row in found[:-1]] == [
        (name.function or "<module>", name.line or None) for name in names
    ]
    assert [row["file"] for row in found[:-1]] == [
        CELL if name.file.startswith("cell") else name.file or None for name in names
    ]

    # Flame graphs: the innermost name of each stack
    report = stacks_report(snap, all_frames=False)
    innermost = {frame_name(report.frames[one.path[-1]]) for one in report.devices[0].stacks}
    assert "aten::sum_dim_IntList (PyTorch's own)" in innermost
    assert "AddmmBackward0 (autograd)" in innermost
    assert f"at::native::structured_sum_out::impl ({SO})" in innermost


def test_stack_and_its_group_by_line_have_the_same_name() -> None:
    snap = snapshot()
    (device,) = mr.peak(snap, by="line", top=0).devices
    assert {one.label for one in device.groups[:-1]} == {
        replace(name, note="").words for name in NAMES.values()
    }


def test_row_without_a_stack_says_how_to_record_one() -> None:
    for python, note in ((True, 'record with stacks="all" to name it'), (False, "")):
        (device,) = mr.peak(snapshot(python=python), top=0).devices
        last = device.groups[-1]
        assert (last.label, last.note) == ("(recorded without a stack)", note)
        place = group_row(last, "stack", all_frames=False).cells[-1]
        assert place == Place("(recorded without a stack)", note=note)


def test_files_of_notebook_cells_are_recognized() -> None:
    for file, cell in {
        CELL: "cell 3105878423",
        r"C:\Users\ana\AppData\Local\Temp\ipykernel_9\77.py": "cell 77",
        "<ipython-input-5-8d2b6c1f2e3a>": "In [5]",
        "/tmp/ipython-input-12-3105878423.py": "In [12]",
        "/tmp/ipython-input-3105878423.py": "cell 3105878423",
        "/root/.ipykernel/1234/command-567-890": "cell 567",
        "/home/ana/ipykernel_114/train.py": "",
        "/home/ana/train.py": "",
        "": "",
    }.items():
        assert cell_of(file) == cell, file
