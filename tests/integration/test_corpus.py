"""Every number for other people's snapshots matches the oracle and the published table."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import memreplay as mr
from memreplay.analysis.code.operators import operator_of
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.budgets import Budget
from memreplay.analysis.comparing.sides import BaselineSide, Scope, SnapshotSide
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.selecting.filters import Filtering
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.allocations.find import allocations_report
from memreplay.commands.app import app
from memreplay.commands.diff.find import diff_report
from memreplay.commands.export.lines import render_dump
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.report.find import HOLDERS, overview
from memreplay.commands.report.text import report_document
from memreplay.commands.steps.find import steps_report
from memreplay.export.viewers.memory_timeline import render_coalesced
from memreplay.export.viewers.torch_categories import category_events
from memreplay.export.viewers.tracks import trace_report
from memreplay.gating.find import gate_file
from memreplay.render.document import Table
from memreplay.render.holders import group_rows
from memreplay.snapshot.model import Group, MeasureName, When
from tests import bad_files, oracle, oracle_allocations, oracle_measures
from tests.commanding import command_runner
from tests.compare import assert_like_oracle
from tests.dumped import expected_tables, read_dump
from tests.oracle_diff import check_lines, lines_held
from tests.oracle_groups import Groups
from tests.unit.commands.report.test_find import assert_equals_the_commands
from tests.unit.commands.report.test_json import check
from tests.unit.commands.report.test_text import COLUMNS, LINES, text

pytestmark = pytest.mark.slow

# Each file's exact requested peak, and the event that first reaches it.
PEAKS = {
    "Wedsonlin_assignment2-systems__medium_1024_training_memory_snapshot": 24_207_167_496,
    "Wedsonlin_assignment2-systems__medium_512_inference_memory_snapshot": 1_949_343_744,
    "kkaitlyn111_cs336-a2-systems__memory_ctx128_fullstep": 54_802_667_524,
    "kkaitlyn111_cs336-a2-systems__memory_ctx256_fullstep_": 54_824_462_340,
    "kkaitlyn111_cs336-a2-systems__memory_ctx512_forward_mixed": 39_860_763_648,
    "a0kuma__adam": 217_763_364,
    "LfieLike_SketchKV2__my_snapshot": 16_380_108_176,
    "Yiyi-philosophy_LLM-inference__1.3b_snapshot": 5_692_346_376,
    "Yiyi-philosophy_LLM-inference__oom_snapshot": 11_840_159_744,
}


def test_numbers_match_the_oracle(corpus_file: Path) -> None:
    assert_like_oracle(corpus_file, oracle.load(corpus_file.read_bytes()))


def test_page_of_pytorchs_viewer_has_the_same_data_as_its_snapshot(corpus_file: Path) -> None:
    data = corpus_file.read_bytes()
    assert_like_oracle(bad_files.viewer_page(data), oracle.load(data))


def test_held_and_reserved_match_the_oracle(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    for device in snap.devices:
        replay = snap.replay(device)
        answers: tuple[tuple[MeasureName, oracle_measures.MeasureReplay], ...] = (
            ("held", oracle_measures.held(snapshot, device)),
            ("reserved", oracle_measures.reserved(snapshot, device)),
        )
        for measure, want in answers:
            usage = replay.measure(measure)
            assert usage.start_bytes == want.carried_over_bytes, measure
            assert usage.series.tolist() == want.usage, measure
            assert usage.reconciliation_bytes == want.reconciliation_bytes, measure


def test_live_sets_match_brute_force_at_a_thousand_events(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    dice = random.Random(corpus_file.name)
    for device in snap.devices:
        replay = snap.replay(device)
        usage, want = replay.measure(), oracle.replay(snapshot, device)
        trace = oracle.trace_of(snapshot, device)
        times = [event["time_us"] for event in trace if "time_us" in event]
        for _ in range(1_000):
            event = dice.randint(-1, replay.events - 1)
            if times and len(times) == len(trace) and dice.random() < 0.5:
                at = dice.choice(times)
                live = usage.live_at(time_us=at)
                event = next((i for i, t in enumerate(times) if t > at), len(times)) - 1
            else:
                live = usage.live_at(event=event)
            assert live.event_index == event
            found = zip(live.address.tolist(), live.size.tolist(), strict=True)
            assert sorted(found) == sorted((one.addr, one.size) for one in want.live_at(event))
            assert live.bytes == usage.bytes_at(event)


def test_allocations_match_slow_sums(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    measures: tuple[MeasureName, ...] = ("requested", "held")
    for measure in measures:
        report = allocations_report(snap, measure=measure, by="size", top=0, temporary=1)
        for found in report.devices:
            events = oracle.trace_of(snapshot, found.device)
            lives = oracle_allocations.lives(snapshot, found.device, measure)
            want = oracle_allocations.summed(lives, events, 1)
            assert structs.asdict(found.total) == asdict(want)
            assert found.new_segment_count == oracle_allocations.needed_segments(lives, events)
            sizes = oracle_allocations.in_classes([(one.size, one.size) for one in lives], 2)
            assert [(c.min_bytes, c.max_bytes, c.count, c.bytes) for c in found.sizes] == sizes
            for one in found.groups:
                least, most = one.min_bytes or 0, one.max_bytes or 0
                some = [life for life in lives if least <= life.size <= most]
                want = oracle_allocations.summed(some, events, 1)
                assert structs.asdict(one.sums) == asdict(want)


def test_report_agrees_with_the_commands(corpus_file: Path) -> None:
    assert_equals_the_commands(corpus_file)
    check(corpus_file)
    page = overview(mr.open(corpus_file), fold=True)
    lines = [line for line in text(page).splitlines() if not line.startswith("memreplay ")]
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


def test_final_blocks_match_the_segments(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    for device in snap.devices:
        replay = snap.replay(device)
        blocks = replay.blocks
        segments = [s for s in oracle.segments_of(snapshot) if s.get("device", 0) == device]
        assert blocks.end_blocks == sum(len(segment["blocks"]) for segment in segments)
        if not segments or blocks.end_misfits:
            continue
        measures: tuple[MeasureName, ...] = ("active", "allocated")
        for measure in measures:
            want = sum(segment[f"{measure}_size"] for segment in segments)
            assert replay.measure(measure).end_bytes == want, measure


# For these files, no block size is assumed, and no block is misplaced.
PROVEN = (
    "Wedsonlin_assignment2-systems__medium_1024_training_memory_snapshot",
    "Wedsonlin_assignment2-systems__medium_512_inference_memory_snapshot",
    "kkaitlyn111_cs336-a2-systems__memory_ctx128_fullstep",
    "kkaitlyn111_cs336-a2-systems__memory_ctx256_fullstep_",
    "kkaitlyn111_cs336-a2-systems__memory_ctx512_forward_mixed",
)


@pytest.mark.parametrize("name", PROVEN)
def test_every_block_size_is_proven(corpus: Path, name: str) -> None:
    blocks = mr.open(corpus / f"{name}.pickle").replay(0).blocks
    assert (blocks.assumed, blocks.misplaced, blocks.end_misfits) == (0, 0, 0)
    assert blocks.proven > 0


def test_inconsistent_trace_is_detected(corpus: Path) -> None:
    (path,) = corpus.glob("facebookresearch_mosaic__output.*")
    assert mr.open(path).replay(0).blocks.misplaced > 0


def test_dump_matches_the_file(corpus_file: Path) -> None:
    found = read_dump(render_dump(mr.open(corpus_file), "ndjson")).tables
    want = expected_tables(oracle.load(corpus_file.read_bytes()))
    for table, rows in want.items():
        assert found[table] == rows, table


@pytest.mark.parametrize("name", PEAKS)
def test_peak_matches_the_published_peak(corpus: Path, name: str) -> None:
    snap = mr.open(corpus / f"{name}.pickle")
    assert snap.replay(0).peak.bytes == PEAKS[name]


def test_one_step_is_too_few_for_a_leak_check(corpus_file: Path) -> None:
    # Most files have one step, one forward pass or no events. Layers aren't steps, and a forward
    # pass's activations aren't a leak. The files from NPUs have three iterations of a loop; the
    # start of the first one isn't known, because steps are marked only by the optimizer.
    snap = mr.open(corpus_file)
    steps, words = 1, "1 step is too few"
    if corpus_file.name.startswith("codeasier_MemSnapDump__npu_"):
        steps, words = 2, "2 steps are too few"
    try:
        found = [len(device.steps) for device in steps_report(snap).devices]
        assert found == [steps] * len(snap.devices)
    except mr.NothingToTellError:
        assert all(snap.replay(device).events <= 1 for device in snap.devices)
    try:
        report = leaks_report(snap)
    except mr.NothingToTellError:
        return
    assert (report.judged, report.leaking) == (False, False)
    assert len(report.devices) == len(snap.devices)
    for device in report.devices:
        whole = device.step_source is not None and device.step_source.found_by == "whole"
        few = "no steps were found" if whole else f"{words} to distinguish a leak from warm-up"
        assert (device.not_judged_reason or "").startswith(few)
        assert sum(one.growth_bytes for one in device.once) <= device.once_bytes


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("a0kuma__adam", "parameters"),
        ("codeasier_MemSnapDump__npu_expandable", "parameters (likely)"),
        ("kkaitlyn111_cs336-a2-systems__memory_ctx128_fullstep", "parameters (likely)"),
    ],
)
def test_optimizer_state_is_twice_the_parameters(corpus: Path, name: str, parameters: str) -> None:
    # All of these programs train with Adam, and peak during its step, which also has temporaries.
    (device, *_) = overview(mr.open(corpus / f"{name}.pickle")).devices
    assert device.caught is not None
    held = {one.category: one.bytes for one in device.caught.rules}
    (advice,) = (one for one in device.advice if one.name == "optimizer_state")
    assert advice.bytes == held["optimizer state"] == 2 * held[parameters]
    assert held["optimizer temporaries"] > 0


def test_final_block_maps_match_the_segments(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    for device in snap.devices:
        replay = snap.replay(device)
        segments = [s for s in oracle.segments_of(snapshot) if s.get("device", 0) == device]
        if not segments or replay.blocks.end_misfits or replay.reserved.misfits:
            continue
        found = replay.block_map(replay.start + replay.events)
        sums = found.sums()
        blocks = [block for segment in segments for block in segment["blocks"]]
        free = [block["size"] for block in blocks if block["state"] == "inactive"]
        assert sums["size"] == sum(segment["total_size"] for segment in segments)
        assert (sums["free"], sums["blocks_free"]) == (sum(free), len(free))
        assert sums["largest"] == max(free, default=0)
        assert sums["blocks_in_use"] + sums["blocks_pending"] == len(blocks) - len(free)
        if all("address" in block for block in blocks):
            addresses = memoryview(found.tiles("address")).tolist()
            assert addresses == sorted(oracle.unsigned(block["address"]) for block in blocks)
        assert found.blocked + found.returnable[1] + found.private_returnable[1] == sum(free)


def test_groups_and_filters_match_slow_sums(corpus_file: Path) -> None:
    snapshot = oracle.load(corpus_file.read_bytes())
    snap = mr.open(corpus_file)
    ways: tuple[tuple[str, ...], ...] = tuple((way,) for way in WAYS if way != "pool")
    some = (
        Filters(("forward",), ("backward",), 1 << 16),
        Filters(only_live_at_end=True),
        Filters((), ("forward",), only_carried_over=True),
    )
    for device in snap.devices:
        slow = Groups(snapshot, device)
        usage = snap.replay(device).measure()
        event = usage.peak.event_index
        for by in (*ways, ("category", "file"), ("annotation", "innermost", "size")):
            found, _, _ = Grouper(snap, ",".join(by)).groups(usage, event, 0)
            want = Counter[str]()
            for key, (n_bytes, _) in slow.sums(event, by).items():
                want[", ".join(key)] += n_bytes
            assert summed(found, by) == want, by
        for filters in some:
            only = Filtering(snap, filters).filtered(usage)
            event = only.peak.event_index
            found, _, _ = Grouper(snap, "stream,file").groups(only, event, 0)
            want = Counter[str]()
            for key, (n_bytes, _) in slow.sums(event, ("stream", "file"), filters).items():
                want[", ".join(key)] += n_bytes
            assert summed(found, ("stream", "file")) == want, filters


def summed(groups: tuple[Group, ...], by: tuple[str, ...]) -> Counter[str]:
    """Return the bytes of each label, counting all frames of a stack."""
    found = Counter[str]()
    for group in groups:
        frames = [(f.function, f.file, f.line) for f in group.frames] if by == ("stack",) else []
        found[group.label + "".join(map(repr, frames))] += group.bytes
    return found


def test_each_ranks_peak_matches_its_file(corpus: Path, tmp_path: Path) -> None:
    """The files serve as the ranks of two runs, in a different order in each. A rank's details
    equal the diff of its two files.
    """
    names = sorted(PEAKS)
    base, new = tmp_path / "base", tmp_path / "new"
    for folder, order in ((base, names), (new, names[1:] + names[:1])):
        folder.mkdir()
        for rank, name in enumerate(order):
            (folder / f"rank{rank}.pickle").symlink_to(corpus / f"{name}.pickle")

    def read(*args: str) -> Any:
        done = command_runner().invoke(app, ["diff", *args, "--format", "json"])
        assert done.exit_code == 0
        return json.loads(done.stdout)

    found = read(str(base), str(new))
    want = [PEAKS[name] for name in names]
    assert [one["base_bytes"] for one in found["ranks"]] == want
    assert [one["new_bytes"] for one in found["ranks"]] == want[1:] + want[:1]
    assert found["base"]["median_bytes"] == sorted(want)[len(want) // 2]
    assert found["new"]["max_bytes"] == max(want)
    changes = [one["change_bytes"] for one in found["ranks"]]
    assert found["detail_rank"] == changes.index(max(changes))
    files = found["detail"]["base_file"], found["detail"]["new_file"]
    assert found["detail"] == read(*files)


def test_exports_for_viewers_add_up(corpus_file: Path) -> None:
    snap = mr.open(corpus_file)
    report = trace_report(snap, stacks=True)
    for device in report.devices:
        replay = snap.replay(device.device)
        for track in device.tracks:
            usage = replay.measure(track.measure, pool=track.pool)
            assert int(track.bytes.max()) == usage.peak.bytes
            assert int(track.bytes[-1]) == usage.end_bytes
        assert device.stacks is not None
        assert sum(one.bytes for one in device.stacks.stacks) == replay.peak.bytes
    if len(snap.devices) == 1:
        times, sizes = json.loads(b"".join(render_coalesced(category_events(snap))))
        assert len(times) == len(sizes)
        assert sum(sizes[-1] if sizes else ()) == snap.replay().end_bytes


PAIRS = [
    ("kkaitlyn111*ctx128*", "kkaitlyn111*ctx256*"),
    ("kkaitlyn111*ctx256*", "kkaitlyn111*ctx512*"),  # fp32 and mixed precision
    ("kkaitlyn111*ctx512*", "kkaitlyn111*ctx128*"),
    ("Wedsonlin*inference*", "Wedsonlin*training*"),
    ("Wedsonlin*training*", "Wedsonlin*inference*"),
]


@pytest.mark.parametrize("base, new", PAIRS)
def test_diff_rows_match_both_snapshots(corpus: Path, base: str, new: str) -> None:
    before, after = (mr.open(next(corpus.glob(name))) for name in (base, new))
    for when in (When("peak", 1), When("event", 300), When("event", 3000), When("end")):
        scope = Scope("requested", when)
        ours, theirs = (lines_held(snap, 0, scope) for snap in (before, after))
        for by in ("stack", "line"):
            report = diff_report(before, after, by=by, at=when, top=0, unchanged=True)
            (device,) = report.devices
            assert check_lines(device.rows, ours, theirs) == []
            assert sum(row.change_bytes for row in device.rows) == device.change_bytes
            assert not any(row.label.startswith("torch::unwind") for row in device.rows)


@pytest.mark.parametrize("base, new", PAIRS)
def test_gate_names_the_same_code_for_any_kind_of_base(corpus: Path, base: str, new: str) -> None:
    before, after = (mr.open(next(corpus.glob(name))) for name in (base, new))
    sides = SnapshotSide(before), BaselineSide(baseline_of(before), "base.json")
    found = [gate_file(after, [Budget(max_peak=0)], base=side) for side in sides]
    assert found[0].findings == found[1].findings
    assert found[0].findings[0].causes


def test_no_two_rows_of_a_report_look_the_same(corpus_file: Path) -> None:
    snap = mr.open(corpus_file)
    folded, whole = (peak_report(snap, top=0, fold=fold) for fold in (True, False))
    for device, its in zip(folded.devices, whole.devices, strict=True):
        cells = group_rows(device.groups, "stack", all_frames=False)
        assert len({(row.cells[-1], row.below) for row in cells}) == len(cells)
        assert sum(group.bytes for group in device.groups) == device.peak_bytes
        assert sum(group.count for group in device.groups) == device.live_count
        mine = {_seen(group): group.bytes for group in device.groups if group.user}
        assert len(mine) == sum(bool(group.user) for group in device.groups)
        slow = Counter[str]()
        for group in its.groups:
            if group.user:
                slow[_seen(group)] += group.bytes
        assert mine == slow


def test_no_two_groups_in_a_report_look_the_same(corpus_file: Path) -> None:
    snap = mr.open(corpus_file)
    report = overview(snap, fold=True)
    folded = {one.device: one for one in peak_report(snap, top=HOLDERS, fold=True).devices}
    for device in report.devices:
        assert device.peak.groups == folded[device.device].groups
    tables = [block for block in report_document(report) if isinstance(block, Table)]
    for table in tables[:1]:
        assert len({(row.cells[-1], row.below) for row in table.rows}) == len(table.rows)


def _seen(group: Group) -> str:
    """Return how a stack is displayed, if it has code."""
    code = sorted((*group.user, *group.libraries))
    return f"{operator_of(group.frames[: code[0]])} {[group.frames[i] for i in code]}"


def test_memory_is_attributed_to_user_code_not_to_libraries(corpus_file: Path) -> None:
    for device in peak_report(mr.open(corpus_file), top=0, by="line").devices:
        for group in device.groups:
            assert not any("site-packages/einops" in frame.file for frame in group.frames)
