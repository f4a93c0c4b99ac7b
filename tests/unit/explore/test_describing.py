"""Tests of explore/describing.py: details of a row's stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.describing import Describer
from memreplay.explore.explored import Explored
from memreplay.explore.rows.row import Shown
from memreplay.snapshot.model import Frame
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT


class OneRow:
    """Rows for a single allocation."""

    def __init__(self, *frames: Frame) -> None:
        self.frames = frames

    def shown(self, _: int) -> Shown:
        return Shown("title", (), self.frames, tuple(range(len(self.frames))))


def told(*frames: Frame, width: int = 60) -> list[str]:
    explored: Any = None
    rows: Any = OneRow(*frames)
    return [text for text, _ in Describer(explored).details(rows, 0, width)]


def test_source_line_is_below_its_frame() -> None:
    inner = Frame("f", "/no/a.py", 3, "y = g(x)\x1b" + "+ 1" * 30)
    found = told(inner, Frame("main", "/no/b.py", 5), width=30)
    assert found == [
        "title",
        "",
        "your code",
        "f  /no/a.py:3",
        "    > y = g(x)\\x1b+ 1+ 1+ 1+ …",
        "main  /no/b.py:5",
    ]


def test_hidden_frames_are_counted() -> None:
    plain = [Frame("f", "/no/a.py", i) for i in range(1, 301)]
    assert told(*plain)[-1] == "… 100 more frames"
    assert told(*plain[:5])[-1] == "f  /no/a.py:5"


def test_own_frames_come_first_and_the_allocators_last() -> None:
    frames = (
        Frame("torch::unwind::unwind()", "??", 0),
        Frame("c10::cuda::CUDACachingAllocator::malloc(void**, int)", "x.cpp", 3),
        Frame("at::_ops::softmax_int::call(at::Tensor const&)", "y.cpp", 4),
        Frame("einsum", "/lib/site-packages/einops/einops.py", 9),
        Frame("<module>", "/tmp/ipykernel_7/3105878423.py", 21),
    )
    shown = Shown("title", (("held", "4 B"),), frames, (4,), (3,))
    rows: Any = type("Rows", (), {"shown": lambda _, __: shown})()
    explored: Any = None
    assert [text for text, _ in Describer(explored).details(rows, 0, 60)] == [
        "title",
        "held  4 B",
        "",
        "your code",
        "cell 3105878423:21",
        "",
        "libraries",
        "einsum  /lib/site-packages/einops/einops.py:9",
        "",
        "the whole stack",
        "at::_ops::softmax_int::call  y.cpp:4",
        "einsum  /lib/site-packages/einops/einops.py:9",
        "cell 3105878423:21",
        "",
        "inside the allocator",
        "torch::unwind::unwind",
        "c10::cuda::CUDACachingAllocator::malloc  x.cpp:3",
    ]


def test_changed_source_file_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("one\n    two\nthree\n")
    for source, shown in (("two", True), ("too", False), (None, True)):
        frame = Frame("f", str(path), 2, source) if source else Frame("f", str(path), 2)
        assert ("1 one" in told(frame, width=200)) is shown


def test_file_name_matters_more_than_the_hint() -> None:
    builder = SnapshotBuilder()
    builder.alloc(1 << 32, 4096)
    data = builder.finish_segments().build()
    data["device_traces"] = [[]]
    describer = Describer(Explored(mr.open(build.dump(data))))
    look = describer.explored.first_look(0)
    name = "runs/my_memory_snapshot.pickle"
    whole = describer.head(look, name, 200)
    assert whole.endswith("exact for the final state (see memreplay summary)")
    short = describer.head(look, name, len(whole) - 1)
    assert short == whole.removesuffix(" (see memreplay summary)")
    assert len(describer.head(look, name, 80)) <= 80


def test_start_is_described_with_the_number_of_events() -> None:
    describer = Describer(Explored(mr.open(ROOT / "examples" / "two_gpus.pkl.gz")))
    look = describer.explored.first_look(0)
    look = replace(look, event=describer.explored.bounds(0)[0])
    assert "the start of 5,645 events" in describer.cursor(look, 200)
