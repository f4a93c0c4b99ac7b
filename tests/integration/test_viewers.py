"""Exports opened by the real viewers, where they are: speedscope, pprof, the trace processor.

Each is named by an environment variable, and its tests are skipped without it; CONTRIBUTING.md says
how to get them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.model import MEASURES
from tests import build, views
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
SPEEDSCOPE = os.environ.get("MEMREPLAY_SPEEDSCOPE")
PPROF = os.environ.get("MEMREPLAY_PPROF")
TRACE_PROCESSOR = os.environ.get("MEMREPLAY_TRACE_PROCESSOR")

with_speedscope = pytest.mark.skipif(
    SPEEDSCOPE is None, reason="MEMREPLAY_SPEEDSCOPE names no folder with speedscope and jsdom"
)
with_pprof = pytest.mark.skipif(PPROF is None, reason="MEMREPLAY_PPROF names no pprof")
with_trace_processor = pytest.mark.skipif(
    TRACE_PROCESSOR is None, reason="MEMREPLAY_TRACE_PROCESSOR names no trace_processor_shell"
)


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """Two devices, and names to fear."""
    path = tmp_path / "nasty.pkl"
    path.write_bytes(build.dump(views.everything()))
    return path


def export(snapshot: Path, out: Path, *args: str) -> Path:
    command = [sys.executable, "-m", "memreplay", "export", str(snapshot), "-o", str(out), *args]
    subprocess.run(command, check=True)
    return out


def peak(snapshot: Path, device: int = 0) -> int:
    return mr.open(snapshot).replay(device).peak.bytes


def speedscope(*files: Path) -> list[dict[str, Any]]:
    assert SPEEDSCOPE is not None
    script = ROOT / "tests" / "integration" / "speedscope.js"
    done = subprocess.run(
        ["node", str(script), SPEEDSCOPE, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]


@with_speedscope
@pytest.mark.parametrize("name", ["x.speedscope.json", "x.folded", "x.pb.gz"])
def test_speedscope_reads_flame_graphs(tmp_path: Path, name: str) -> None:
    (found,) = speedscope(export(EXAMPLE, tmp_path / name))
    assert found["total"] == peak(EXAMPLE)
    assert found["unit"] == ("none" if name.endswith("folded") else "bytes")
    assert any(frame.startswith("train_step") for frame in found["frames"])


@with_speedscope
def test_speedscope_reads_names_to_fear(tmp_path: Path, nasty: Path) -> None:
    first, second = speedscope(export(nasty, tmp_path / "x.speedscope.json"))
    assert (first["total"], second["total"]) == (peak(nasty), peak(nasty, 1))
    assert views.NASTY[0] in first["frames"]
    (lines,) = speedscope(export(nasty, tmp_path / "x.collapsed"))
    assert lines["total"] == peak(nasty) + peak(nasty, 1)


@with_speedscope
def test_speedscope_reads_slices_of_chrome_traces(tmp_path: Path) -> None:
    found = speedscope(export(EXAMPLE, tmp_path / "x.trace.json"))
    # It puts what is said of a slice behind its name.
    frames = {frame.partition(" ")[0] for profile in found for frame in profile["frames"]}
    assert {"ProfilerStep#1", "ProfilerStep#2"} <= frames


def pprof(*args: object) -> str:
    assert PPROF is not None
    done = subprocess.run([PPROF, *map(str, args)], capture_output=True, text=True, check=True)
    return done.stdout


@with_pprof
def test_pprof_adds_up(tmp_path: Path, nasty: Path) -> None:
    for snapshot, total in ((EXAMPLE, peak(EXAMPLE)), (nasty, peak(nasty) + peak(nasty, 1))):
        out = export(snapshot, tmp_path / f"{snapshot.stem}.pb.gz")
        text = pprof("-top", "-unit=B", "-nodefraction=0", out)
        assert "Type: inuse_space" in text
        assert f"of {total}B total" in text
    assert f"File: {nasty.name}" in text


@with_pprof
def test_pprof_knows_functions_lines_and_devices(tmp_path: Path, nasty: Path) -> None:
    out = export(EXAMPLE, tmp_path / "x.pb.gz")
    assert "<module>" in pprof("-top", "-cum", out)
    assert "forward /home/ana/gpt/model.py:72" in pprof("-top", "-lines", out)
    out = export(nasty, tmp_path / "y.pb.gz")
    text = pprof("-top", "-unit=B", "-tagfocus=device=1", out)
    assert f"{peak(nasty, 1)}B" in text


@with_pprof
def test_pprof_compares_what_was_allocated(tmp_path: Path) -> None:
    out = export(EXAMPLE, tmp_path / "x.pb", "--what", "allocated", "--all-frames")
    assert "Type: alloc_space" in pprof("-top", out)
    assert "Type: alloc_objects" in pprof("-top", "-sample_index=alloc_objects", out)


@with_trace_processor
@pytest.mark.parametrize("name", ["x.pftrace", "x.trace.json"])
def test_the_trace_processor_finds_the_peaks(tmp_path: Path, nasty: Path, name: str) -> None:
    module = pytest.importorskip("perfetto.trace_processor")
    snap = mr.open(nasty)
    out = export(nasty, tmp_path / name, "--points", "0")
    config = module.TraceProcessorConfig(bin_path=TRACE_PROCESSOR)
    with module.TraceProcessor(trace=str(out), config=config) as processor:

        def asked(query: str) -> list[Any]:
            return list(processor.query(query))

        peaks = asked(
            "select t.name, p.pid, max(c.value) as n from counter c join process_counter_track t"
            " on c.track_id = t.id join process p using (upid) group by t.name, p.pid"
        )
        # What is read of JSON is called `NAME bytes`.
        found = {
            (row.pid, row.name.removesuffix(" bytes").removesuffix(" (estimated)")): int(row.n)
            for row in peaks
        }
        for device in snap.devices:
            for measure in MEASURES:
                want = snap.replay(device).measure(measure).peak.bytes
                assert found[device + 1, measure] == want
        slices = {row.name for row in asked("select name from slice")}
        assert {"inner", "step#1", "step#2", "crossing"} <= slices
        if name.endswith("pftrace"):
            heap = asked("select sum(size) as n from heap_profile_allocation")
            assert int(heap[0].n) == sum(snap.replay(device).peak.bytes for device in snap.devices)
        errors = asked("select name, value from stats where severity = 'error' and value > 0")
        assert [(row.name, row.value) for row in errors] == []
