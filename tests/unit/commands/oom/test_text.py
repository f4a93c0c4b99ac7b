"""Tests of commands/oom/text.py."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.result import (
    CachedName,
    CachedPart,
    Cause,
    OomReport,
    Remedy,
    RemedyName,
)
from memreplay.commands.oom.text import CAUSES, cause_words, oom_document
from memreplay.render.plain import render_plain
from tests import build
from tests.allocator import GIB, MIB, Machine
from tests.build import SnapshotBuilder
from tests.kineto import Kineto
from tests.unit.commands.oom.test_find import (
    ASK,
    KEEP,
    crowded,
    fail,
    machine,
    report,
    scattered,
    split_limited,
)


def found(made: Machine, **options: Any) -> OomReport:
    return oom_report(mr.open(build.dump(made.dump()[0])), **options)


def text(report: OomReport, width: int = 100) -> list[str]:
    return render_plain(oom_document(report), width=width).splitlines()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_text(width: int) -> None:
    lines = text(found(scattered()), width)
    assert all(len(line) <= width for line in lines)
    whole = " ".join(line.strip() for line in lines)
    assert "device 0: 30.0 MiB failed at event 90 of 91: fragmentation" in whole
    assert (
        "Enough was free in the right pool and stream, but only in blocks too small for this"
    ) in whole
    assert "0 B free, 30.0 MiB missing" in whole
    assert "right pool and stream, but the blocks are too small" in whole
    assert "doesn't help: as simulated, this request still fails" in whole
    assert (
        "Free 30.0 MiB more and this request fits. The largest holder has 100.0 MiB; without it"
        " the request fits, as simulated"
    ) in " ".join(whole.split())
    assert "attention /srv/model.py:52" in " ".join(whole.split())


def test_the_card() -> None:
    whole = " ".join(line.strip() for line in text(found(crowded())))
    assert "at least 4.0 GiB (its size is not in the file)" in whole
    whole = " ".join(line.strip() for line in text(found(crowded(), total_memory=16 * GIB)))
    assert "16.0 GiB, 12.0 GiB taken by others" in whole
    assert ": other_processes" in whole


def test_many_are_listed_shortly() -> None:
    made, device = machine(64 * MIB)
    for size in range(25):
        fail(device, (70 + size) * MIB)
    lines = text(found(made, number=25, most=20))
    assert "note: 5 more failed (--format json has all)" in lines
    assert any("(oom 25)" in line for line in lines)


def test_every_name_has_words() -> None:
    assert set(CAUSES) == set(get_args(Cause))
    report = found(scattered())
    (device,) = report.devices
    (oom,) = device.ooms
    helps = get_args(RemedyName)
    for cause in get_args(Cause):
        all_of_it = replace(
            oom,
            cause=cause,
            cached=tuple(CachedPart(name, 5, 5) for name in get_args(CachedName)),
            remedies=tuple(Remedy(name, 5, False) for name in helps),
            pool_assumed=True,
            pending_bytes=7,
            device_free_bytes=None,
        )
        one = replace(device, ooms=(all_of_it,), total_bytes=None)
        lines = text(replace(report, devices=(one,)), 80)
        assert all(len(line) <= 80 for line in lines)
        assert sum(line.startswith(helps) for line in lines) == len(helps)


def test_none() -> None:
    made, device = machine(64 * MIB)
    device.malloc(MIB)
    whole = " ".join(" ".join(text(found(made))).split())
    assert "note: no out-of-memory event in this file, but it ends near its peak" in whole
    assert "If a request failed, recording was already off".lower() in whole.lower()


def test_an_end_far_below_the_peak() -> None:
    """Nobody looks for a failed request there, and the notes don't contradict each other."""
    made, device = machine(64 * MIB)
    large = device.malloc(32 * MIB)
    assert large is not None
    device.free(large)
    device.malloc(MIB)
    whole = " ".join(" ".join(text(found(made))).split())
    assert "no out-of-memory event in this file, and memory had been higher" in whole
    assert "if it failed here not likely" in whole
    assert "if a request failed" not in whole.lower()


@pytest.mark.parametrize("with_event", [False, True])
def test_only_the_final_state(with_event: bool) -> None:
    """It can't be compared with itself."""
    builder = SnapshotBuilder()
    if with_event:
        builder.snapshot_event(512)
    builder.segment(1 << 30, 200 * MIB, blocks=[builder.block(1 << 30, 80 * MIB)])
    told = oom_report(mr.open(build.dump(builder.build())))
    (device,) = told.devices
    assert device.end is not None
    assert (device.end.peak_bytes, device.end.peak_event) == (None, None)
    whole = " ".join(" ".join(text(told)).split())
    assert "note: only the final state is known" in whole
    what = "allocation was" if with_event else "events were"
    assert f"if it failed here not known: no {what} recorded" in whole
    assert "memory was probably higher before: 120.0 MiB is cached" in whole
    assert "likely: close to" not in whole
    assert "most likely at the end" not in whole


def test_what_was_reserved_is_not_in_every_trace_of_the_profiler() -> None:
    trace = Kineto().memory(1, 512, 512, 512).memory(2, 1024, 512, 1024)
    whole = " ".join(" ".join(text(oom_report(mr.open(trace.json())))).split())
    assert "device 0: 1.0 KiB active at the end" in whole
    assert "cached not in the file, nor what was reserved" in whole
    assert "of 0 B" not in whole


def test_none_but_a_likely_end() -> None:
    made, device = machine(200 * MIB)
    device.malloc(100 * MIB, 0, KEEP)
    first = device.malloc(30 * MIB, 0, ASK)
    told = found(made)
    for width in (60, 80, 160):
        lines = text(told, width)
        assert all(len(line) <= width for line in lines)
        whole = " ".join(" ".join(lines).split())
        assert "device 0: 130.0 MiB of 130.0 MiB active at the end, after event 3" in whole
        assert "if it failed here likely: close to the most that was ever active" in whole
        assert "append /srv/cache.py:27" in whole
        assert "memreplay help recording" in whole
    assert first is not None
    device.free(first)
    whole = " ".join(" ".join(text(found(made), 160)).split())
    assert (
        "not likely: 130.0 MiB was active earlier, and has been freed since; memreplay at FILE"
    ) in whole
    assert "FILE 3 shows" in whole
    assert "cached 30.0 MiB, the largest block 30.0 MiB" in whole


def test_none_in_a_range() -> None:
    data = build.dump(scattered().dump()[0])
    lines = text(oom_report(mr.open(data, stop=10)))
    assert "note: no out-of-memory event in this range." in lines[1]


def test_a_limit_on_splits_is_to_be_raised() -> None:
    whole = " ".join(line.strip() for line in text(found(split_limited()), 160))
    assert "raise max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF, or drop it" in whole


def test_a_request_larger_than_all_that_is() -> None:
    made, device = machine(64 * MIB)
    device.malloc(20 * MIB)
    fail(device, 90 * MIB)
    whole = " ".join(line.strip() for line in text(found(made)))
    whole = " ".join(whole.split())
    assert "The request is larger than all that this process had and could get (64.0 MiB)" in whole
    assert "less_live Freeing all 20.0 MiB isn't enough: 46.0 MiB more is missing." in whole
    assert "blocked by" not in whole
    on_card = " ".join(text(found(made, total_memory=64 * MIB)))
    assert "The request is larger than the card (64.0 MiB)" in on_card


def test_a_file_without_segments() -> None:
    snapshot = scattered().dump()[0]
    snapshot["segments"] = []
    trace = snapshot["device_traces"][0]
    trace[:] = [event for event in trace if not event["action"].startswith("segment")]
    lines = text(oom_report(mr.open(build.dump(snapshot))))
    assert any(line.startswith("note: this file shows no reserved memory") for line in lines)


@pytest.mark.parametrize("cause", ["fragmentation", "other_stream", "other_pool"])
def test_a_cause_that_was_not_enough_by_itself(cause: Cause) -> None:
    (device,) = report(scattered()).devices
    name: CachedName = "too_small" if cause == "fragmentation" else cause  # type: ignore[assignment]
    asked = device.ooms[0].request_bytes
    for n_bytes, alone in ((asked, True), (asked - 512, False)):
        part = CachedPart(name=name, bytes=n_bytes, largest_bytes=n_bytes)
        oom = replace(device.ooms[0], cause=cause, cached=(part,), device_free_bytes=512)
        assert (cause_words(oom) == CAUSES[cause]) is alone
        words = cause_words(oom).startswith("Enough memory was free in total, but mostly ")
        assert words is not alone
