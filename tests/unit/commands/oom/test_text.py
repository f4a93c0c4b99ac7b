"""Tests of commands/oom/text.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.groups.kinds import CategoryBytes
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.result import (
    CachedName,
    CachedPart,
    Cause,
    OomReport,
    Remedy,
    RemedyName,
)
from memreplay.commands.oom.text import (
    ACTIVATIONS_SHARE,
    CAUSES,
    cause_text,
    oom_document,
    remedy_text,
    remedy_title,
)
from memreplay.render.plain import render_plain
from memreplay.render.units import size
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB
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
def test_report_has_the_expected_lines(width: int) -> None:
    lines = text(found(scattered()), width)
    assert all(len(line) <= width for line in lines)
    whole = " ".join(line.strip() for line in lines)
    assert "device 0: 30.0 MiB request failed at event 90 of 91: fragmentation" in whole
    assert (
        "Enough was free in the right pool and stream, but only in blocks too small for this"
    ) in whole
    assert "0 B free, 30.0 MiB missing" in whole
    assert "right pool and stream, but the blocks are too small" in whole
    assert "doesn't help: in simulation, this request still fails" in whole
    assert (
        "Free 30.0 MiB more and this request fits. The largest holder has 100.0 MiB active;"
        " without it the request fits in simulation"
    ) in " ".join(whole.split())
    assert "attention /srv/model.py:52" in " ".join(whole.split())


def test_card_and_other_processes_are_shown() -> None:
    whole = " ".join(line.strip() for line in text(found(crowded())))
    assert "at least 4.0 GiB (its size isn't in the file)" in whole
    whole = " ".join(line.strip() for line in text(found(crowded(), total_memory=16 * GIB)))
    assert "16.0 GiB, 12.0 GiB used outside PyTorch" in whole
    assert ": other processes" in whole


@pytest.mark.parametrize("slack, shown", [(3 * MIB, "includes 3.0 MiB slack"), (-3 * MIB, "")])
def test_slack_below_zero_is_not_shown(slack: int, shown: str) -> None:
    """If events are missing, more can be requested than active."""
    told = found(scattered())
    (device,) = told.devices
    (oom,) = device.ooms
    for pending in (0, MIB):
        odd = replace(oom, requested_bytes=oom.active_bytes - slack, pending_bytes=pending)
        page = "\n".join(text(replace(told, devices=(replace(device, ooms=(odd,)),))))
        assert shown in page
        assert "-3.0 MiB" not in page
        assert ("1.0 MiB waiting" in page) == bool(pending)


def test_many_failures_are_listed_briefly() -> None:
    made, device = machine(64 * MIB)
    for more in range(25):
        fail(device, (70 + more) * MIB)
    lines = text(found(made, oom=25, most=20))
    assert "note: 5 more failed (--format json has all)" in lines
    assert any("(oom 25)" in line for line in lines)


def test_every_cause_has_a_text() -> None:
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
        one = replace(device, ooms=(all_of_it,), total_memory_bytes=None)
        lines = text(replace(report, devices=(one,)), 80)
        assert all(len(line) <= 80 for line in lines)
        titles = tuple(remedy_title(one.name) for one in all_of_it.remedies)
        assert sum(line.startswith(titles) for line in lines) == len(helps)


@pytest.mark.parametrize("name", [one for one in get_args(RemedyName) if one != "less_live"])
def test_remedy_that_is_not_enough_is_no_instruction(name: RemedyName) -> None:
    ((oom,),) = (one.ooms for one in found(scattered()).devices)
    said = remedy_text(Remedy(name, 5 * MIB, False), oom)
    assert re.fullmatch("not enough by itself: .* at most 5.0 MiB", said)
    assert remedy_text(Remedy("other_processes", 5 * MIB, False), oom) == (
        "not enough by itself: stopping other programs frees at most 5.0 MiB"
    )
    said = remedy_text(Remedy(name, 5 * MIB, True), oom)
    assert said.startswith("at most 5.0 MiB, may be enough: ")


def test_help_for_one_request_says_how_far_the_program_gets() -> None:
    ((oom,),) = (one.ooms for one in found(scattered()).devices)
    helped = Remedy("expandable_segments", 5 * MIB, True, True, "expandable_segments:True")
    ended, going = (replace(oom, after_allocations=n, state_bytes=0) for n in (0, 7))
    assert "this request fits; the recording ends here, so what comes next isn't known" in (
        remedy_text(helped, ended)
    )
    assert "this request fits, and so do all later ones in the recording" in (
        remedy_text(helped, going)
    )
    assert "this request fits, but the one at event 1,234 fails" in (
        remedy_text(replace(helped, fails_next=1234), going)
    )
    stepping = replace(going, state_bytes=oom.reserved_bytes + GIB)
    assert f"but the optimizer's step needs at least {size(stepping.step_missing_bytes)} more" in (
        remedy_text(helped, stepping)
    )


def test_less_memory_for_one_request_says_what_the_whole_recording_needs() -> None:
    ((oom,),) = (one.ooms for one in found(scattered()).devices)
    less = Remedy("less_live", 5 * MIB, True)
    one = replace(oom, missing_bytes=MIB, more_bytes=2 * MIB, to_end_bytes=30 * MIB, state_bytes=0)
    said = remedy_text(less, one)
    assert said.startswith("Free 2.0 MiB more and this request fits.")
    assert said.endswith(". The whole recording needs 30.0 MiB more")
    assert "whole recording" not in remedy_text(less, replace(one, to_end_bytes=2 * MIB))
    stepping = replace(one, state_bytes=oom.reserved_bytes + GIB)
    words = f"The optimizer's first step needs at least {size(stepping.step_missing_bytes)} more"
    assert remedy_text(less, stepping).endswith(f". {words} to finish")


@pytest.mark.parametrize("share, shown", [(ACTIVATIONS_SHARE, True), (0.39, False)])
def test_large_activations_are_among_what_helps(share: float, shown: bool) -> None:
    report = found(scattered())
    ((oom,),) = (one.ooms for one in report.devices)
    of = [CategoryBytes("activations", round(share * oom.active_bytes) - MIB, 1)]
    of += [CategoryBytes("attention", MIB + 1, 1), CategoryBytes("unknown", GIB, 1)]
    one = replace(report.devices[0], ooms=(replace(oom, categories=tuple(of)),))
    whole = " ".join(" ".join(text(replace(report, devices=(one,)))).split())
    words = "a smaller batch or, when training, torch.utils.checkpoint reduces them"
    assert (words in whole) == shown


def test_report_says_that_no_request_failed() -> None:
    made, device = machine(64 * MIB)
    device.malloc(MIB)
    whole = " ".join(" ".join(text(found(made))).split())
    assert (
        "note: no out-of-memory event in this file, but the recording ends near its peak" in whole
    )
    assert "If a request failed, recording was already off".lower() in whole.lower()


def test_failure_is_unlikely_if_the_end_is_far_below_the_peak() -> None:
    """The notes mustn't contradict each other."""
    made, device = machine(64 * MIB)
    large = device.malloc(32 * MIB)
    assert large is not None
    device.free(large)
    device.malloc(MIB)
    whole = " ".join(" ".join(text(found(made))).split())
    assert "no out-of-memory event in this file; memory was higher" in whole
    assert "if it failed here unlikely" in whole
    assert "if a request failed" not in whole.lower()


@pytest.mark.parametrize("with_event", [False, True])
def test_final_state_is_not_compared_with_a_peak(with_event: bool) -> None:
    """Without events, the final state is the only moment."""
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


def test_profiler_trace_may_lack_reserved_memory() -> None:
    trace = Kineto().memory(1, 512, 512, 512).memory(2, 1024, 512, 1024)
    whole = " ".join(" ".join(text(oom_report(mr.open(trace.json())))).split())
    assert "device 0: 1.0 KiB active at the end" in whole
    assert "cached not in the file, like reserved bytes" in whole
    assert "of 0 B" not in whole


def test_failure_is_possible_if_the_end_is_close_to_the_peak(tmp_path: Path) -> None:
    made, device = machine(200 * MIB)
    device.malloc(100 * MIB, 0, KEEP)
    first = device.malloc(30 * MIB, 0, ASK)
    told = found(made)
    for width in (60, 80, 160):
        lines = text(told, width)
        assert all(len(line) <= width for line in lines)
        whole = " ".join(" ".join(lines).split())
        assert "device 0: 130.0 MiB of 130.0 MiB active at the end, after event 3" in whole
        assert "if it failed here possible: active bytes are close to their peak" in whole
        assert "append /srv/cache.py:27" in whole
        assert "memreplay help recording" in whole
    assert first is not None
    device.free(first)
    whole = " ".join(" ".join(text(found(made), 160)).split())
    assert (
        "unlikely: 130.0 MiB was active earlier and has been freed since; memreplay at FILE"
    ) in whole
    assert "FILE 3 shows" in whole  # bytes have no name
    path = tmp_path / "my run" / "snap.pkl"
    path.parent.mkdir()
    path.write_bytes(build.dump(made.dump()[0]))
    whole = " ".join(" ".join(text(oom_report(mr.open(path)), 1000)).split())
    assert f"memreplay at '{path}' 3 shows what held it" in whole
    assert "cached 30.0 MiB, largest block 30.0 MiB" in whole


def test_note_mentions_the_range() -> None:
    data = build.dump(scattered().dump()[0])
    lines = text(oom_report(mr.open(data, stop=10)))
    assert "note: no out-of-memory event in this range." in lines[1]


def test_report_suggests_raising_the_split_limit() -> None:
    whole = " ".join(line.strip() for line in text(found(split_limited()), 160))
    assert "raise max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF, or drop it" in whole


def test_report_says_that_the_request_is_larger_than_the_card() -> None:
    made, device = machine(64 * MIB)
    device.malloc(20 * MIB)
    fail(device, 90 * MIB)
    whole = " ".join(line.strip() for line in text(found(made)))
    whole = " ".join(whole.split())
    assert "The request is larger than everything this process had or could get (64.0 MiB)" in whole
    assert "hold less Freeing all 20.0 MiB isn't enough: 46.0 MiB more is missing." in whole
    assert "blocked by" not in whole
    on_card = " ".join(text(found(made, total_memory=64 * MIB)))
    assert "The request is larger than the card (64.0 MiB)" in on_card


def test_report_says_that_reserved_memory_is_unknown() -> None:
    snapshot = scattered().dump()[0]
    snapshot["segments"] = []
    trace = snapshot["device_traces"][0]
    trace[:] = [event for event in trace if not event["action"].startswith("segment")]
    lines = text(oom_report(mr.open(build.dump(snapshot))))
    assert any(line.startswith("note: reserved memory isn't known") for line in lines)


@pytest.mark.parametrize("cause", ["fragmentation", "other_stream", "other_pool"])
def test_cause_says_whether_it_was_sufficient(cause: Cause) -> None:
    (device,) = report(scattered()).devices
    name: CachedName = "too_small" if cause == "fragmentation" else cause  # type: ignore[assignment]
    asked = device.ooms[0].request_bytes
    for n_bytes, alone in ((asked, True), (asked - 512, False)):
        part = CachedPart(name=name, bytes=n_bytes, largest_bytes=n_bytes)
        oom = replace(device.ooms[0], cause=cause, cached=(part,), device_free_bytes=512)
        assert (cause_text(oom) == CAUSES[cause]) is alone
        words = cause_text(oom).startswith("Enough memory was free in total, but mostly ")
        assert words is not alone
