"""Tests of commands/peak/text.py, with 80 and 160 columns."""

from __future__ import annotations

import re

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.groups.kinds import CategoryBytes
from memreplay.analysis.groups.tree import Call, CallTree
from memreplay.analysis.steps.records import StepAt
from memreplay.commands.peak.result import PeakReport
from memreplay.commands.peak.text import peak_document
from memreplay.render.document import Table
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import By, Frame, Group, Label
from tests.unit.commands.results import (
    ATTENTION,
    BY_POOL,
    DEVICE_PEAK,
    GIB,
    MIB,
    NO_EVENTS_PEAK,
    PEAK,
    PEAKS,
    START_US,
    peak_of,
)

AT_80 = """\
snap.pkl

device 0: peak 10.0 GiB requested at event 3,737 of 22,331,
  +0.412 s (2026-07-12 16:40:22.412345 UTC)
measure       requested, exact
carried over  2.0 GiB before the first event, 1.0 GiB of it in the peak (10.0%)
end           4.0 GiB after the last event
live          1,200 blocks at the peak

    bytes  share  count  allocated at, and its callers
  5.0 GiB  50.0%     96  scaled_dot_product_attention  …/modeling_llama.py:215
                           forward  /home/ada/run/src/model/layers.py:88
                           forward  /home/ada/run/src/model/transformer.py:141
  3.0 GiB  30.0%  1,024  MulBackward0 (autograd)  aten::mul_Tensor
  1.5 GiB  15.0%      7  (no stack recorded)
512.0 MiB   5.0%     73  12 more groups (--top 0 shows all)"""

PATH_AT_160 = (
    "/opt/venv/lib/python3.12/site-packages/transformers/models/llama/modeling_llama.py:215"
)
AT_160 = f"""\
snap.pkl

device 0: peak 10.0 GiB requested at event 3,737 of 22,331, +0.412 s (2026-07-12 16:40:22.412345 UTC)
measure       requested, exact
carried over  2.0 GiB before the first event, 1.0 GiB of it in the peak (10.0%)
end           4.0 GiB after the last event
live          1,200 blocks at the peak

    bytes  share  count  allocated at, and its callers
  5.0 GiB  50.0%     96  scaled_dot_product_attention  {PATH_AT_160}  aten::linear
                           forward  /home/ada/run/src/model/layers.py:88
                           forward  /home/ada/run/src/model/transformer.py:141
  3.0 GiB  30.0%  1,024  MulBackward0 (autograd)  aten::mul_Tensor
  1.5 GiB  15.0%      7  (no stack recorded)
512.0 MiB   5.0%     73  12 more groups (--top 0 shows all)"""  # noqa: E501

NO_EVENTS_AT_80 = """\
snap.pkl

device 0: no events were recorded; 1.0 GiB requested in the final state
measure  requested, exact for the final state
live     7 blocks

  bytes   share  count  allocated at, and its callers
1.0 GiB  100.0%      7  (no stack recorded)

note: next time, call torch.cuda.memory._record_memory_history() before the
  work of interest, and dump before switching it off"""


BY_POOL_AT_80 = """\
highest peaks  event  time
     10.0 GiB  3,737  +0.412 s
      2.0 GiB  start  +0 us

  bytes  share  count  own peak  reserved  its peak  pool
9.0 GiB  90.0%  1,000   9.5 GiB  11.0 GiB  12.0 GiB  default pool
1.0 GiB  10.0%    200   9.5 GiB  11.0 GiB  12.0 GiB  graph pool 3:0
    0 B   0.0%      -   9.5 GiB  11.0 GiB  12.0 GiB  (pool not known)"""


def render(report: PeakReport, width: int = 80) -> str:
    return render_plain(peak_document(report), width=width)


@pytest.mark.parametrize(
    "report, width, golden",
    [(PEAK, 80, AT_80), (PEAK, 160, AT_160), (NO_EVENTS_PEAK, 80, NO_EVENTS_AT_80)],
    ids=["80", "160", "no events"],
)
def test_text_is_as_expected(report: PeakReport, width: int, golden: str) -> None:
    assert render(report, width) == golden


@pytest.mark.parametrize(
    "report, where, when",
    [
        (
            peak_of(peak_event=-1, peak_us=START_US),
            "at the start, before the first of 22,331 events",
            "2026-07-12 16:40:22.000000 UTC",
        ),
        (
            peak_of(peak_event=-1, peak_us=None, events=1, trace_events=1),
            "at the start, before the first of 1 event",
            "",
        ),
        (peak_of(peak_us=None, start_us=None), "at event 3,737 of 22,331", ""),
        (
            peak_of(start_us=None),
            "at event 3,737 of 22,331",
            "2026-07-12 16:40:22.412345 UTC",
        ),
        (
            peak_of(peak_us=START_US - 5),
            "at event 3,737 of 22,331",
            "-5 us (2026-07-12 16:40:21.999995 UTC)",
        ),
    ],
)
def test_first_lines_say_when_the_peak_was(report: PeakReport, where: str, when: str) -> None:
    lines = render(replace(report, file="/data/ru\x1bn 1/snap.pkl"), 160).splitlines()
    assert lines[:2] == [r"/data/ru\x1bn 1/snap.pkl", ""]
    assert lines[2] == ", ".join(filter(None, (f"device 0: peak 10.0 GiB requested {where}", when)))


def test_peak_at_the_start_is_carried_over_and_printed_once() -> None:
    assert "carried over" not in render(peak_of(peak_event=-1))


@pytest.mark.parametrize(
    "held, words",
    [
        (0, "2.0 GiB before the first event"),
        (2 << 30, "2.0 GiB before the first event, all of it in the peak (20.0%)"),
    ],
)
def test_carried_over_bytes_are_shown(held: int, words: str) -> None:
    assert f"carried over  {words}\n" in render(peak_of(carried_over_at_peak_bytes=held), 100)


def test_whole_stacks_are_shown() -> None:
    lines = render_plain(peak_document(PEAK, all_frames=True), width=80).splitlines()
    first = next(number for number, line in enumerate(lines) if "50.0%" in line)
    assert [line[25:].split()[0] for line in lines[first : first + 9]] == [
        "torch::unwind::unwind",
        "at::_ops::linear::call",
        "_call_impl",
        "scaled_dot_product_attention",
        "forward",
        "_call_impl",
        "forward",
        "train_step",
        "<module>",
    ]


def test_whole_stacks_highlight_user_frames() -> None:
    (table,) = (block for block in peak_document(PEAK, all_frames=True) if isinstance(block, Table))
    styles = [style for _, style in table.rows[0].below]
    assert styles == ["dim", "dim", "plain", "plain", "dim", "plain", "plain", "plain"]


@pytest.mark.parametrize(
    "by, frame, title, who",
    [
        ("line", Frame("forward", "/x/layers.py", 88), "line", "forward  /x/layers.py:88"),
        ("file", Frame("", "/x/layers.py", 0), "file", "/x/layers.py"),
        ("file", Frame("", "??", 0), "file", "(C++, no file known)"),
        ("line", Frame("at::_ops::mul::call()", "??", 0), "line", "aten::mul (PyTorch's own)"),
        ("function", Frame("at::_ops::mul::call()", "", 0), "function", "label"),
    ],
)
def test_group_by_a_single_frame_is_named(by: By, frame: Frame, title: str, who: str) -> None:
    group = Group(label="label", bytes=10 << 30, count=5, share=1.0, frames=(frame,), user=())
    report = replace(peak_of(groups=(group,), groups_total=1, rest_bytes=0, rest_count=0), by=by)
    lines = render(report).splitlines()
    assert lines[-2].endswith(f"  {title}")
    assert lines[-1].endswith(f"  {who}")


def test_stack_with_only_plumbing_is_named_by_its_operator() -> None:
    inner = Frame("c10::malloc(long)", "??", 0)
    operator = Frame("at::_ops::empty::call(long)", "??", 0)
    python = Frame("pin_memory", "/x/torch/utils/data.py", 7)
    with_operator = replace(ATTENTION, frames=(inner, operator, python), user=())
    assert "  aten::empty (PyTorch's own)\n" in render(peak_of(groups=(with_operator,)))
    labelled = replace(
        ATTENTION,
        frames=(inner, python, inner),
        user=(),
        label="pin_memory /x/torch/utils/data.py:7",
    )
    lines = render(peak_of(groups=(labelled,))).splitlines()
    assert lines[-3].endswith("  pin_memory  /x/torch/utils/data.py:7")
    assert lines[-2].endswith("    c10::malloc")


def test_warnings_appear_only_if_needed() -> None:
    assert "warning" not in render(PEAK)
    text = render(peak_of(trusted=False, reasons=("ring_overflow", "made_up_later")))
    assert text.count("warning: ") == 2
    assert "warning: the recorder's ring buffer was full" in text


def test_each_device_has_a_section() -> None:
    other = replace(DEVICE_PEAK, device=3, peak_bytes=5 * MIB)
    text = render(replace(PEAK, devices=(DEVICE_PEAK, other)))
    assert "\n\ndevice 3: peak 5.0 MiB requested" in text


@pytest.mark.parametrize("width", [80, 160])
def test_pools_and_peaks_are_tables(width: int) -> None:
    (device,) = BY_POOL.devices
    text = render(replace(BY_POOL, devices=(replace(device, peaks=PEAKS),)), width)
    assert text.split("\n\n", 2)[2] == BY_POOL_AT_80


def test_peak_before_a_range_is_at_its_start() -> None:
    first = 3_000
    peaks = tuple(replace(PEAKS[0], event_index=at) for at in (first + 1, first, first - 1, 0, -1))
    text = render(peak_of(first_event=first, peaks=peaks, start_us=None))
    assert re.findall(r"10\.0 GiB  +(\S+)  -", text) == ["3,001", "3,000", *["start"] * 3]


def test_top_limits_the_pools() -> None:
    (device,) = BY_POOL.devices
    cut = replace(device, groups=device.groups[:1], rest_bytes=1 << 30, rest_count=200)
    lines = render(replace(BY_POOL, devices=(cut,))).splitlines()
    assert lines[-2].endswith("  default pool")
    assert lines[-1].split() == ["1.0", "GiB", "10.0%", "200", "1", "more", "(--top", "0)"]


def test_streams_are_a_table() -> None:
    (device,) = BY_POOL.devices
    numbers = (0, 140_245_612_345_600, None)
    parts = tuple(
        replace(part, pool=UNSET, stream=stream)
        for part, stream in zip(device.parts, numbers, strict=True)
    )
    report = replace(BY_POOL, by="stream", devices=(replace(device, pools=UNSET, streams=parts),))
    lines = render(report).splitlines()
    assert [line.partition("12.0 GiB  ")[2] for line in lines[-3:]] == [
        "default stream",
        "stream 140245612345600",
        "(stream not known)",
    ]


def test_reserved_memory_has_no_blocks() -> None:
    (device,) = BY_POOL.devices
    reserved = replace(device, measure="reserved", carried_over_at_peak_bytes=0, live_count=0)
    text = render(replace(BY_POOL, measure="reserved", devices=(reserved,)))
    assert "device 0: peak 10.0 GiB reserved at event" in text
    assert "live " not in text
    assert text.endswith(
        "  bytes  share  own peak  pool\n"
        "9.0 GiB  90.0%   9.5 GiB  default pool\n"
        "1.0 GiB  10.0%   9.5 GiB  graph pool 3:0\n"
        "    0 B   0.0%   9.5 GiB  (pool not known)"
    )
    cut = replace(reserved, groups=reserved.groups[:1], rest_bytes=1 << 30)
    text = render(replace(BY_POOL, measure="reserved", devices=(cut,)))
    assert text.endswith("1.0 GiB  10.0%            1 more (--top 0 shows all)")


def test_measure_shows_whether_it_is_exact() -> None:
    text = render(peak_of(measure="active", exactness="estimated", reasons=("blocks_assumed",)))
    assert "\nmeasure       active, estimated\n" in text
    assert "\nnote: some carried-over blocks may be up to 1 MiB larger" in text


def test_selected_pool_or_stream_is_shown() -> None:
    text = render(replace(PEAK, pool=(0, 1), stream=7))
    assert "\npool          0:1 only\nstream        7 only\n" in text


def test_idle_device_takes_one_line() -> None:
    idle = replace(
        DEVICE_PEAK, device=1, events=0, trace_events=0, groups=(), exactness="estimated"
    )
    text = render(replace(PEAK, devices=(DEVICE_PEAK, idle)))
    assert text.endswith("\n\ndevice 1: no events; 10.0 GiB requested (estimated) all along")


def test_peak_without_times_has_a_dash() -> None:
    peaks = tuple(replace(one, time_us=None) for one in PEAKS)
    text = render(peak_of(peaks=peaks, start_us=None, peak_us=None))
    assert "\n     10.0 GiB  3,737  -\n" in text


def test_empty_snapshot_has_a_note() -> None:
    text = render(replace(PEAK, devices=()))
    assert text == "snap.pkl\nnote: nothing to show: the file has neither events nor segments"
    empty = peak_of(peak_bytes=0, groups=(), groups_total=0, rest_bytes=0, rest_count=0)
    assert "bytes  share" not in render(empty)
    assert "(0.0%)" in render(empty, 160)


STACK = Label("f /r/m.py:1", (Frame("f", "/r/m.py", 1), Frame("main", "/r/t.py", 9)), (0, 1))
NODE = Frame("torch::autograd::generated::MmBackward0::apply(int)", "??", 0)


@pytest.mark.parametrize(
    "by, of, row",
    [
        (
            "category,file",
            (Label("one"), Label("/r/m.py", (Frame("", "/r/m.py", 0),))),
            "one  /r/m.py",
        ),
        (
            "file,size",
            (Label("/r/m.py", (Frame("", "/r/m.py", 0),)), Label("1 KiB")),
            "/r/m.py  1 KiB",
        ),
        ("category,stack,size", (Label("one"), STACK, Label("1 KiB")), "one, f  /r/m.py:1  1 KiB"),
        ("category,pool", (Label("one"), Label("default pool")), "one, default pool"),
        ("module,size", (Label("Gpt > Mlp", STACK.frames), Label("1 KiB")), "Gpt > Mlp, 1 KiB"),
        ("category,line", (Label("one"), Label("x", (NODE,))), "one, MmBackward0 (autograd)"),
        (
            "file,line",
            (Label("/r/m.py", (Frame("", "/r/m.py", 0),)), STACK),
            "/r/m.py, f  /r/m.py:1",
        ),
    ],
)
def test_several_keys_are_shown_in_order(by: By, of: tuple[Label, ...], row: str) -> None:
    shown = next(label for label in reversed(of) if label.frames or label is of[0])
    label = ", ".join(one.text for one in of)
    group = Group(
        label=label, bytes=5, count=1, share=1.0, frames=shown.frames, user=shown.user, of=of
    )
    peak = replace(PEAK.devices[0], groups=(group,), groups_total=1, rest_bytes=0, rest_count=0)
    lines = render(replace(PEAK, by=by, devices=(peak,)), 120).splitlines()
    (at,) = (
        i for i, line in enumerate(lines) if line.startswith("bytes") or "share  count" in line
    )
    assert lines[at].endswith(by.replace(",", ", "))
    assert lines[at + 1].endswith(f"  {row}")
    assert (
        ("main  /r/t.py:9" in lines[at + 2 :][0]) is ("stack" in by)
        if at + 2 < len(lines)
        else True
    )


def test_backward_pass_is_named_in_a_tree() -> None:
    call = Call(
        level=1,
        label="x",
        frames=(NODE,),
        bytes=5,
        count=1,
        share=1.0,
        own_bytes=5,
        own_count=1,
        hidden=0,
        hidden_bytes=0,
    )
    below = replace(call, level=2)
    peak = replace(PEAK.devices[0], tree=CallTree(calls=(call, below), hidden_bytes=0))
    text = render(replace(PEAK, devices=(peak,)), 120)
    assert "  MmBackward0 (autograd)\n" in text
    # At other levels, a node is shown by its function, like any call.
    assert "    torch::autograd::generated::MmBackward0::apply" in text
    # In an inverted tree, a node that covers only some of its stacks is shown by its function, too.
    called = replace(call, own_bytes=2, hidden=1, hidden_bytes=3)
    tree = CallTree(calls=(call, called), hidden_bytes=0, inverted=True)
    lines = render(replace(PEAK, devices=(replace(peak, tree=tree),)), 120).splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.endswith("  MmBackward0 (autograd)"))
    assert "  torch::autograd::generated::MmBackward0::apply" in lines[at + 1]
    assert [line.split()[-2:] for line in lines[at + 2 : at + 4]] == [
        ["(no", "caller)"],
        ["more", "caller"],
    ]


def pairs_of(**changes: object) -> list[str]:
    text = render(peak_of(**changes), 160)
    return [line for line in text.splitlines() if line.startswith(("where", "categories"))]


def test_first_lines_name_the_step_and_the_largest_group() -> None:
    step = StepAt(
        annotation="ProfilerStep",
        found_by="annotation",
        number=3,
        of=10,
        inside=False,
        by="ProfilerStep",
        name="",
    )
    assert pairs_of(step=step, annotations=("train", "forward")) == [
        "where         before step 3 of 10 (ProfilerStep), annotation train > forward"
    ]
    assert pairs_of() == []
    unknown = CategoryBytes(category="unknown", bytes=10 * GIB, count=5)
    assert pairs_of(categories=(unknown,)) == []
    some = [CategoryBytes(category=name, bytes=2 * GIB, count=1) for name in "abcdef"]
    words = "categories    guessed: a 2.0 GiB (20.0%), unknown 10.0 GiB (100.0%)"
    assert pairs_of(categories=(some[0], unknown)) == [words]
    (line,) = pairs_of(categories=tuple(some))
    assert line.endswith("d 2.0 GiB (20.0%), 2 more (--by category)")
    by_category = replace(peak_of(categories=tuple(some)), by="category")
    assert "kinds  " not in render(by_category, 160)
