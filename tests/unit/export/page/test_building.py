"""Tests of export/page/building.py: the contents of a page, read back slowly, also for unusual and
hostile files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.trust.trust import verdict
from memreplay.errors import LimitError
from memreplay.export.page.building import page_data
from memreplay.export.page.lives import Lives, lives
from memreplay.export.page.records import PageDevice, PageReport
from memreplay.render.blocks import NoteBlock
from memreplay.render.trust import trust_text
from memreplay.snapshot.model import MEASURES
from memreplay.texts import clean
from tests import build, oracle, oracle_measures
from tests.build import START_US, SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.strategies import traces
from tests.unit.export.page.reading import Read


def check(snap: mr.Snapshot) -> Read:
    page = Read(snap)
    functions, files, lines = (
        page.column(one)
        for one in (page.data.frame_function, page.data.frame_file, page.data.frame_line)
    )
    frames, at = page.column(page.data.frames), 0
    for i, length in enumerate(page.column(page.data.stack_frames)):
        stack = [
            (page.data.texts[functions[one]], page.data.texts[files[one]], lines[one])
            for one in frames[at : at + length]
        ]
        wanted = [(clean(one.function), clean(one.file), one.line) for one in snap.stack(i)]
        assert stack == wanted
        at += length
    assert [one.device for one in page.data.devices] == list(snap.devices)
    for device in page.data.devices:
        replay = snap.replay(device.device)
        assert (device.events, device.first_event) == (replay.events, replay.first_event)
        for name in MEASURES:
            usage = replay.measure(name)
            over_time = [usage.start_bytes, *usage.series.tolist()]
            peak = device.peaks[name]
            assert (peak.bytes, peak.moment) == (max(over_time), over_time.index(max(over_time)))
        check_lives(page, device, lives(snap, replay))
        changed = page.column(device.reserved_event), page.column(device.reserved_bytes)
        reserved = [device.reserved_start, *changed[1]]
        assert reserved[0] == replay.measure("reserved").start_bytes
        assert max(reserved) == device.peaks["reserved"].bytes
        assert changed == (
            (replay.segment_changes.event - replay.first_event).tolist(),
            replay.segment_changes.reserved.tolist(),
        )
        assert [(one.name, one.begin, one.start_us, one.end_us) for one in device.spans] == [
            (clean(one.name), one.start_event + 1 - replay.first_event, one.start_us, one.end_us)
            for one in spans(snap, replay)
        ]
        check_clock(page, device, replay)
        for name in MEASURES:
            found = verdict(snap, replay.measure(name))
            words = trust_text(found, snap.trace_events(device.device))
            assert device.trust[name].text == words
            assert device.trust[name].warning is not (found.exact and found.trusted)
    return page


def check_lives(page: Read, device: PageDevice, those: Lives) -> None:
    mine = page.lives(device)
    for name in ("begin", "end", "let_go", "requested", "block", "stack"):
        assert [getattr(one, name) for one in mine] == getattr(those, name).tolist(), name
    # Values a script can't represent are missing.
    base, unit = int(device.address_base), device.address_unit
    assert [one.address for one in mine] == [
        address if (address - base) // unit < 2**53 - 1 else 0 for address in those.address.tolist()
    ]


def check_clock(page: Read, device: PageDevice, replay: mr.Replay) -> None:
    if device.time is None:
        assert not replay.has_times
        assert device.first_us is device.last_us is None
        return
    clock = page.column(device.time)
    assert clock[0] == 0
    assert len(clock) == replay.events
    assert device.first_us is not None
    assert device.last_us == clock[-1]
    known = [replay.clock_us(event + replay.first_event) for event in range(replay.events)]
    first = next(one for one in known if one is not None)
    assert [device.first_us + one for one in clock] == [
        first if one is None else one for one in known
    ]


@given(traces())
def test_page_has_the_snapshots_contents(snapshot: Any) -> None:
    check(mr.open(build.dump(snapshot)))


@pytest.mark.slow
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_pages_of_real_snapshots_have_their_contents(path: Path) -> None:
    check(mr.open(path))


@given(traces(max_devices=2))
def test_bytes_match_the_oracle(snapshot: Any) -> None:
    """Compare the bytes after every event with slow replays of the file."""
    page = Read(mr.open(build.dump(snapshot)))
    for device in page.data.devices:
        requested = oracle.replay(snapshot, device.device)
        held = oracle_measures.held(snapshot, device.device)
        mine = page.lives(device)
        series = {
            "requested": [requested.carried_over_bytes, *requested.usage],
            "held": [held.carried_over_bytes, *held.usage],
        }
        for measure, usage in series.items():
            for event, want in enumerate(usage, -1):
                live = [one for one in mine if one.live(event, measure)]  # type: ignore[arg-type]
                assert sum(one.requested for one in live) == want


def opened(builder: SnapshotBuilder, **options: Any) -> mr.Snapshot:
    return mr.open(build.dump(builder.build()), **options)


def one_device(page: Read) -> PageDevice:
    (device,) = page.data.devices
    return device


def test_times_never_decrease() -> None:
    made = SnapshotBuilder()
    for at in (30, 10, 20, 50):
        made.event("alloc", 0x1000 * at, 8, time_us=START_US + at)
    page = check(opened(made))
    device = one_device(page)
    assert device.first_us == START_US + 30
    assert device.time is not None
    assert page.column(device.time) == [0, 0, 0, 20]


def test_page_without_times_has_no_time_column() -> None:
    device = one_device(check(opened(SnapshotBuilder(times=False).alloc(0x1000, 8))))
    assert (device.time, device.first_us) == (None, None)


def test_page_may_have_a_single_event() -> None:
    page = check(opened(SnapshotBuilder().alloc(0x1000, 8)))
    device = one_device(page)
    assert (device.events, device.first_us) == (1, START_US)
    assert device.time is not None
    assert page.column(device.time) == [0]
    assert page.lives(device)[0].address == 0x1000


def test_empty_snapshot_has_nothing_to_show() -> None:
    page = Read(mr.open(build.dump({"segments": [], "device_traces": []})))
    assert (page.data.devices, page.data.bytes) == ((), 0)
    assert page.data.notes == ("nothing to show: the file has neither events nor segments",)


def test_carried_over_memory_without_events_is_shown() -> None:
    made = SnapshotBuilder(devices=0)
    made.segment(0x9000, 1 << 21, blocks=[made.block(0x9000, 512, 300)])
    page = check(opened(made))
    device = one_device(page)
    (one,) = page.lives(device)
    assert (one.begin, one.end, one.requested, one.stack) == (-1, 0, 300, 2)
    assert device.trust["requested"].text == (
        "Exact for the final state only: no events were recorded, so an earlier, higher peak may be"
        " missing."
    )


def test_page_has_each_device() -> None:
    made = SnapshotBuilder(devices=3).alloc(0x1000, 8).alloc(0x2000, 9, device=2)
    page = check(opened(made))
    assert [one.device for one in page.data.devices] == [0, 2]
    assert [page.lives(one)[0].requested for one in page.data.devices] == [8, 9]


def test_allocations_have_their_pool_and_stream() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 8, pool_id=(0, 0), stream=2**63 + 8).alloc(0x2000, 8, pool_id=(3, 0))
    page = check(opened(made.alloc(0x3000, 8)))
    device = one_device(page)
    lives = page.lives(device)
    assert [one.pool for one in lives] == [(0, 0), (3, 0), None]
    assert [one.stream for one in lives] == [str(2**63 + 8), "0", "0"]


def test_hostile_text_is_escaped() -> None:
    name = "<script>alert(1)</script>\ud800\u202e\x1b"
    made = SnapshotBuilder().annotation(name, "START")
    made.alloc(0x1000, 8, frames=[(name, f"/{name}.py", 1)])
    snap = opened(made)
    page = check(snap)
    shown = "<script>alert(1)</script>\\ud800\\u202e\\x1b"
    assert shown in page.data.texts
    assert one_device(page).spans[0].name == shown
    named = Read(snap, name=name).data
    assert (named.name, named.file) == (shown, clean(snap.file))


def test_frames_have_their_source_line() -> None:
    code = "</script><img src=x onerror=alert(1)>\x1b"
    made = SnapshotBuilder()
    for line in (1, 2):
        made.alloc(0x1000 * line, 8, frames=[("f", "/a.py", line), ("g", "/b.py", 1)])
    made.top("memreplay", {"source_lines": {"/a.py": {"2": code}}})
    page = check(opened(made))
    sources = page.column(page.data.frame_source)
    lines = page.column(page.data.frame_line)
    files = page.column(page.data.frame_file)
    shown = {
        (page.data.texts[file], line): page.data.texts[one - 1]
        for file, line, one in zip(files, lines, sources, strict=True)
        if one
    }
    assert shown == {("/a.py", 2): "</script><img src=x onerror=alert(1)>\\x1b"}
    plain = Read(opened(SnapshotBuilder().alloc(0x1000, 8, frames=[("f", "/a.py", 2)])))
    assert not any(plain.column(plain.data.frame_source))


def test_frames_of_the_allocator_are_marked() -> None:
    names = ["torch::unwind::unwind()", "c10::cuda::malloc", "at::_ops::add::call", "forward"]
    made = SnapshotBuilder().alloc(0x1000, 8, frames=[(one, "/a.cpp", 0) for one in names])
    page = check(opened(made))
    inner = page.column(page.data.frame_allocator)
    functions = [page.data.texts[one] for one in page.column(page.data.frame_function)]
    assert [inner[functions.index(one)] for one in names] == [1, 1, 0, 0]


def test_page_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(SnapshotBuilder().alloc(0x1000, 8).build()))
    data = Read(mr.open(path)).data
    assert (data.name, data.file, data.report) == ("snap.pkl", str(path), None)
    report = PageReport((NoteBlock("so", warning=False),), {0: "device 0: fine"}, {0: "why"})
    assert Read(mr.open(path), report=report).data.report == report


def test_truncated_file_has_a_note() -> None:
    data = SNAPSHOTS[-1].read_bytes()
    page = check(mr.open(data[: len(data) * 2 // 3], salvage=True))
    assert page.data.notes[0].startswith("the file is cut off")


def test_page_of_a_range_has_only_its_events() -> None:
    made = SnapshotBuilder()
    for at in range(9):
        made.alloc(0x1000 * at, 8)
    page = check(opened(made, start=3, stop=7))
    device = one_device(page)
    assert (device.first_event, device.events, len(page.lives(device))) == (3, 4, 7)


@pytest.mark.parametrize("size", [2**53, 2**61])
def test_more_bytes_than_a_script_can_count_are_an_error(size: int) -> None:
    with pytest.raises(LimitError, match="53 bits"):
        page_data(opened(SnapshotBuilder().alloc(0x1000, size)))


def test_sum_too_large_for_a_script_is_an_error() -> None:
    made = SnapshotBuilder()
    for at in range(5):
        made.alloc(0x1000 * at, 2**51)
    with pytest.raises(LimitError, match="53 bits"):
        page_data(opened(made))
    check(opened(SnapshotBuilder().alloc(0x1000, 2**51)))


def test_times_too_large_for_a_script_are_errors() -> None:
    made = SnapshotBuilder().alloc(0x1000, 8, time_us=2**60).alloc(0x2000, 8, time_us=2**60 + 5)
    with pytest.raises(LimitError, match="53 bits"):
        page_data(opened(made))
    made = SnapshotBuilder().annotation("a", "START", 2**60).alloc(0x1000, 8, time_us=5)
    with pytest.raises(LimitError, match="53 bits"):
        page_data(opened(made))


def test_first_and_last_address_of_the_address_space_have_a_page() -> None:
    made = SnapshotBuilder().alloc(0, 8).alloc(2**64 - 512, 8).alloc(2**52, 8)
    page = check(opened(made))
    assert [one.address for one in page.lives(one_device(page))] == [0, 0, 2**52]


def test_output_does_not_depend_on_hash_order() -> None:
    data = SNAPSHOTS[0].read_bytes()
    assert page_data(mr.open(data)) == page_data(mr.open(data))
