"""Tests of commands/fragmentation/text.py and render/mapped.py."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import When
from tests import build
from tests.allocator import MIB
from tests.build import SnapshotBuilder
from tests.unit.commands.fragmentation.test_find import two_pins
from tests.unit.commands.oom.test_find import KEEP, machine, scattered


def text(snapshot: build.Snapshot, width: int = 100, **options: Any) -> list[str]:
    report = fragmentation_report(mr.open(build.dump(snapshot)), **options)
    return render_plain(fragmentation_document(report), width=width).splitlines()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_text(width: int) -> None:
    lines = text(scattered().dump()[0], width)
    assert all(len(line) <= width for line in lines)
    whole = " ".join(" ".join(lines).split())
    first = (
        "device 0: 100.0 MiB of 200.0 MiB reserved is free (50.0%), when a request failed, event"
    )
    assert first in whole
    assert "free 100.0 MiB in 20 blocks, the largest 5.0 MiB (the others hold 95.0%)" in whole
    assert "empty_cache()  gives back 0 B" in lines
    assert "slack          0 B in blocks beyond what was requested" in lines
    assert any(
        line.startswith("100.0 MiB  100.0%  100.0 MiB      20        10  ") for line in lines
    )
    assert any(line.startswith("most free") and line.endswith("50.0%") for line in lines)
    assert any(line.endswith("large, default pool") for line in lines)


def test_the_rest_has_a_row() -> None:
    lines = text(two_pins(), at=When("end"), top=1)
    assert any("1 more group (--top 0 shows all)" in line for line in lines)


def test_private_and_pending_memory_is_told_apart() -> None:
    made, device = machine(200 * MIB)
    device.begin_pool((1, 0))
    first = device.malloc(64 * MIB)
    device.end_pool()
    second = device.malloc(16 * MIB)
    assert first is not None
    assert second is not None
    device.free(first)
    device.record_stream(second, 7)
    device.free(second)
    lines = "\n".join(text(made.dump()[0], at=When("end")))
    assert (
        "empty_cache()  gives back 16.0 MiB, 16.0 MiB of it waits for a stream now;"
        " at most 64.0 MiB more if" in lines
    )
    assert "pending        16.0 MiB in 1 block, freed and waiting for another stream" in lines
    assert "<= 64.0 MiB" in lines
    assert "large, graph pool 1:0" in lines


def test_no_events() -> None:
    lines = text(scattered().dump()[0] | {"device_traces": [[]]})
    assert "device 0: 100.0 MiB of 200.0 MiB reserved is free (50.0%) in the final state" in lines
    assert not any(line.startswith("when ") for line in lines)
    assert any(line.startswith("note: next time, call torch.cuda.memory") for line in lines)


def test_no_segments() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512).free_completed(0x1000, 512)
    lines = " ".join(text(made.build()))
    assert "this file shows no reserved memory" in lines
    assert "neither events nor segments" in " ".join(text(SnapshotBuilder().build()))


def test_blocks_outside_are_told() -> None:
    made, device = machine(64 * MIB)
    device.malloc(5 * MIB, 0, KEEP)
    snapshot = made.dump()[0]
    snapshot["device_traces"][0].append({"action": "alloc", "addr": 4096, "size": 512, "stream": 0})
    lines = text(snapshot, at=When("end"))
    assert "outside        512 B in 1 live block that fit in no segment" in lines


def test_the_kind_is_read_on_a_narrow_terminal() -> None:
    made, device = machine(80 * MIB)
    device.malloc(2 * MIB, 0x5555_0000_1000)
    device.malloc(512, 0x5555_0000_1000)
    report = fragmentation_report(mr.open(build.dump(made.dump()[0])), at=When("end"))
    lines = render_plain(fragmentation_document(report), width=80).splitlines()
    for kind in ("large", "small"):
        assert any(f"  {kind}, default " in line for line in lines)


def test_who_pins_it_is_read_on_a_narrow_terminal() -> None:
    for width in (64, 80):
        lines = text(scattered().dump()[0], width)
        assert all(len(line) <= width for line in lines)
        assert any(line.endswith("large, default pool") for line in lines)
        assert not any(line.endswith("…") for line in lines)
