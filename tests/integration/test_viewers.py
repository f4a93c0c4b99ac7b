"""Open exports in the real viewers, if available: speedscope, pprof, Perfetto, torch.

Each viewer is found through an environment variable or an import; without it, its tests are
skipped. ci/viewers installs all viewers and allows no skips.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.snapshot.model import MEASURES
from tests import build, views
from tests.conftest import ROOT
from tests.torch_parts import torch_part

EXAMPLE = ROOT / "tests/data" / "transformer_step.pkl.gz"
SPEEDSCOPE = os.environ.get("MEMREPLAY_SPEEDSCOPE")
PPROF = os.environ.get("MEMREPLAY_PPROF")
PERFETTO = os.environ.get("MEMREPLAY_PERFETTO")

CHINESE = "训练"
# Annotations in `nasty`: the start of each, in microseconds after the first event, and its
# duration.
SPANS = {"step#1": (1, 4), "inner": (2, 2), "crossing": (3, 4), "step#2": (5, 2)}

pytestmark = pytest.mark.viewers
with_speedscope = pytest.mark.skipif(
    SPEEDSCOPE is None, reason="MEMREPLAY_SPEEDSCOPE names no folder with speedscope and jsdom"
)
with_pprof = pytest.mark.skipif(PPROF is None, reason="MEMREPLAY_PPROF names no pprof")
with_perfetto = pytest.mark.skipif(
    PERFETTO is None, reason="MEMREPLAY_PERFETTO names no folder of Perfetto's UI"
)


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """Return a snapshot with two devices and hostile names."""
    made = views.everything()
    for stage, at in (("START", 1), ("END", 99)):
        time_us = build.START_US + at
        note = {"name": CHINESE, "stage": stage, "device": 1, "time_us": time_us}
        made["external_annotations"].append(note)
    path = tmp_path / "nasty.pkl"
    path.write_bytes(build.dump(made))
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
def test_speedscope_reads_hostile_names(tmp_path: Path, nasty: Path) -> None:
    first, second = speedscope(export(nasty, tmp_path / "x.speedscope.json"))
    assert (first["total"], second["total"]) == (peak(nasty), peak(nasty, 1))
    assert views.NASTY[0] in first["frames"]
    (lines,) = speedscope(export(nasty, tmp_path / "x.collapsed"))
    assert lines["total"] == peak(nasty) + peak(nasty, 1)


@with_speedscope
def test_speedscope_reads_slices_of_chrome_traces(tmp_path: Path) -> None:
    found = speedscope(export(EXAMPLE, tmp_path / "x.trace.json"))
    # The viewer appends a slice's arguments to its name.
    frames = {frame.partition(" ")[0] for profile in found for frame in profile["frames"]}
    assert {"ProfilerStep#1", "ProfilerStep#2"} <= frames


def pprof(*args: object) -> str:
    assert PPROF is not None
    done = subprocess.run([PPROF, *map(str, args)], capture_output=True, text=True, check=True)
    return done.stdout


@with_pprof
def test_pprofs_sums_match_the_peak(tmp_path: Path, nasty: Path) -> None:
    for snapshot, total in ((EXAMPLE, peak(EXAMPLE)), (nasty, peak(nasty) + peak(nasty, 1))):
        out = export(snapshot, tmp_path / f"{snapshot.stem}.pb.gz")
        text = pprof("-top", "-unit=B", "-nodefraction=0", out)
        assert "Type: inuse_space" in text
        assert f"of {total}B total" in text
    assert f"File: {nasty.name}" in text


@with_pprof
def test_pprof_shows_functions_lines_and_devices(tmp_path: Path, nasty: Path) -> None:
    out = export(EXAMPLE, tmp_path / "x.pb.gz")
    assert "<module>" in pprof("-top", "-cum", out)
    assert "forward /home/ana/gpt/model.py:72" in pprof("-top", "-lines", out)
    out = export(nasty, tmp_path / "y.pb.gz")
    text = pprof("-top", "-unit=B", "-tagfocus=device=1", out)
    assert f"{peak(nasty, 1)}B" in text


@with_pprof
def test_pprof_compares_allocations(tmp_path: Path) -> None:
    out = export(EXAMPLE, tmp_path / "x.pb", "--what", "allocated", "--all-frames")
    assert "Type: alloc_space" in pprof("-top", out)
    assert "Type: alloc_objects" in pprof("-top", "-sample_index=alloc_objects", out)


Row = dict[str, Any]


def asked(trace: Path, *queries: str) -> list[list[Row]]:
    """Run SQL queries in the trace processor from Perfetto's UI; return one list of rows per
    query.
    """
    assert PERFETTO is not None
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    requests = protos.TraceProcessorRpcStream()
    kinds = protos.TraceProcessorRpc
    requests.msg.add(request=kinds.TPM_APPEND_TRACE_DATA).append_trace_data = trace.read_bytes()
    requests.msg.add(request=kinds.TPM_FINALIZE_TRACE_DATA)
    for query in queries:
        requests.msg.add(request=kinds.TPM_QUERY_STREAMING).query_args.sql_query = query
    for seq, message in enumerate(requests.msg):
        message.seq = seq
    script = ROOT / "tests" / "integration" / "perfetto.js"
    done = subprocess.run(
        ["node", str(script), PERFETTO],
        input=requests.SerializeToString(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers = []
    parsed = False
    for message in protos.TraceProcessorRpcStream.FromString(done.stdout).msg:
        assert not message.fatal_error
        if message.response == kinds.TPM_APPEND_TRACE_DATA:
            assert not message.append_result.error
            parsed = True
        elif message.response == kinds.TPM_QUERY_STREAMING:
            result = message.query_result
            assert not result.error, result.error
            names = list(result.column_names)
            rows = QueryResultIterator(names, result.batch)
            answers.append([{name: getattr(row, name) for name in names} for row in rows])
    assert parsed
    assert len(answers) == len(queries)
    return answers


PEAKS = """
    select t.name, t.unit, p.pid, p.name as process, max(c.value) as peak from counter c
    join process_counter_track t on c.track_id = t.id join process p using (upid)
    group by t.name, p.pid"""
ERRORS = "select name from stats where severity in ('error', 'data_loss') and value > 0"


@with_perfetto
@pytest.mark.parametrize("name", ["x.pftrace", "x.trace.json"])
def test_perfetto_finds_the_peaks(tmp_path: Path, nasty: Path, name: str) -> None:
    snap = mr.open(nasty)
    out = export(nasty, tmp_path / name, "--points", "0")
    peaks, marks, errors = asked(
        out,
        PEAKS,
        """select s.ts, a.key, a.int_value from slice s join args a using (arg_set_id)
        where s.name = 'peak (requested)'""",
        ERRORS,
    )
    assert errors == []
    # A counter read from JSON is called `NAME bytes` and has no unit.
    found = {
        (row["process"], row["pid"], re.sub(r"( \(estimated\))?( bytes)?$", "", row["name"])): row
        for row in peaks
    }
    assert len(found) == len(peaks)
    # The file doesn't tell how much memory device 1 reserved, so it has no such counter.
    assert [snap.replay(device).shows_reserved for device in snap.devices] == [True, False]
    assert ("device 1, as process", 2, "reserved") not in found
    for device in snap.devices:
        for measure in MEASURES:
            if measure == "reserved" and device == 1:
                continue
            row = found[f"device {device}, as process", device + 1, measure]
            assert row["peak"] == snap.replay(device).measure(measure).peak.bytes
            if name.endswith("pftrace"):
                assert row["unit"] == "bytes"
    for key, want in (("bytes", "bytes"), ("event", "event_index")):
        noted = [row["int_value"] for row in marks if row["key"].endswith(f".{key}")]
        peaks_of = [getattr(snap.replay(device).peak, want) for device in snap.devices]
        assert sorted(noted) == sorted(peaks_of)


@with_perfetto
@pytest.mark.parametrize("name", ["x.pftrace", "x.trace.json"])
def test_perfetto_shows_annotations_at_their_times(tmp_path: Path, nasty: Path, name: str) -> None:
    out = export(nasty, tmp_path / name)
    (rows,) = asked(out, "select name, ts, dur from slice where dur > 0 order by ts")
    spans = {row["name"]: (row["ts"], row["dur"]) for row in rows}
    assert set(spans) >= {*SPANS, CHINESE}
    (start,) = asked(out, "select start_ts as ts from trace_bounds")[0]
    # The recording starts a microsecond before its first event.
    for span, want in SPANS.items():
        ts, dur = spans[span]
        assert ((ts - start["ts"]) / 1000 - 1, dur / 1000) == want


@with_perfetto
def test_perfetto_shows_the_live_set_by_stack(tmp_path: Path) -> None:
    rows, sites, marks = asked(
        export(EXAMPLE, tmp_path / "x.pftrace"),
        "select ts, size, heap_name, callsite_id from heap_profile_allocation",
        """select c.id, c.parent_id, f.name from stack_profile_callsite c
        join stack_profile_frame f on c.frame_id = f.id""",
        "select ts from slice where name = 'peak (requested)'",
    )
    known = {row["id"]: row for row in sites}
    found: dict[str, int] = {}
    for row in rows:
        assert (row["heap_name"], row["ts"]) == ("device 0: requested", marks[0]["ts"])
        path: list[str] = []
        site = row["callsite_id"]
        while site is not None:
            path.insert(0, known[site]["name"])
            site = known[site]["parent_id"]
        found[";".join(path)] = found.get(";".join(path), 0) + row["size"]
    lines = export(EXAMPLE, tmp_path / "x.folded").read_text().splitlines()
    assert found == {stack: int(size) for stack, _, size in (x.rpartition(" ") for x in lines)}


@with_perfetto
def test_perfetto_shows_a_live_set_per_device(tmp_path: Path, nasty: Path) -> None:
    (rows,) = asked(
        export(nasty, tmp_path / "x.pftrace"),
        """select p.pid, sum(h.size) as bytes from heap_profile_allocation h
        join process p using (upid) group by p.pid""",
    )
    found = {row["pid"] - 1: row["bytes"] for row in rows}
    assert found == {device: peak(nasty, device) for device in mr.open(nasty).devices}


@with_perfetto
def test_perfetto_shows_rows_in_the_intended_order(tmp_path: Path, nasty: Path) -> None:
    (rows,) = asked(
        export(nasty, tmp_path / "x.pftrace"),
        """include perfetto module viz.summary.track_event;
        select g.name, g.parent_id from _track_event_tracks_ordered_groups g
        join process p using (upid) where p.pid = 1 and (g.has_data or g.has_children)
        order by g.parent_id, g.order_id""",
    )
    rows = [{**row, "name": row["name"].removesuffix(" (estimated)")} for row in rows]
    assert [row["name"] for row in rows if row["parent_id"] is None] == [
        *("Annotations", "Marks"),
        *("active", "active by pool", "allocated", "allocated by pool", "held", "held by pool"),
        *("requested", "requested by pool", "reserved"),
    ]
    # The largest pool comes first.
    inner = [row["name"] for row in rows if row["parent_id"] is not None]
    assert inner[:2] == ["requested, pool 0:1", "requested, pool 0:0"]


# Part of the example: one step.
PART = ("--from", "1200", "--to", "6200")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Write a slice of the example, as the command does."""
    out = tmp_path / "part.pkl"
    command = [sys.executable, "-m", "memreplay", "export", str(EXAMPLE), *PART, "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return out


def sizes(lines: str, state: str = "") -> int:
    """Return the byte counts in collapsed lines, by block state."""
    found = (line.rpartition(" ") for line in lines.splitlines() if f";{state}" in line)
    return sum(int(n) for _, _, n in found)


def test_torch_reads_a_slice(part: Path) -> None:
    viz = torch_part("torch.cuda._memory_viz")
    data = pickle.loads(part.read_bytes())
    replay = mr.open(EXAMPLE, start=1200, stop=6200).replay()
    reserved = replay.measure("reserved").end_bytes
    live = replay.measure("requested").end_bytes

    def lines(text: str) -> str:
        return text

    # Requested bytes aren't rounded, so compare the bytes of segments and of live blocks.
    assert sizes(viz.segments(data, format_flamegraph=lines)) == reserved
    text = viz.memory(data, format_flamegraph=lines)
    kept = "".join(f"{line}\n" for line in text.splitlines() if "<gaps>" not in line)
    assert sizes(kept, "active_") == live
    assert "train.py:231:<module>" in text
    assert f"segments: {len(data['segments'])}" in viz.segsum(data)
    trace = viz.trace(data)
    assert trace.count(" = cudaMalloc(") == sum(
        event["action"] == "segment_alloc" for event in data["device_traces"][0]
    )


def test_torch_compares_slices(part: Path, capsys: pytest.CaptureFixture[str]) -> None:
    viz = torch_part("torch.cuda._memory_viz")
    after = pickle.loads(part.read_bytes())["segments"]
    text = viz.compare([], after, format_flamegraph=lambda text: text)
    assert sizes(text) == sum(segment["total_size"] for segment in after)
    assert viz.compare(after, after, format_flamegraph=lambda text: text) == ""
    assert "only_before = []" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["trace_plot", "segment_plot"])
def test_pages_written_by_torch_contain_the_slice(part: Path, kind: str) -> None:
    viz = torch_part("torch.cuda._memory_viz")
    data = pickle.loads(part.read_bytes())
    found = re.search(r'"base64": "([^"]+)"', getattr(viz, kind)(data))
    assert found is not None
    assert pickle.loads(base64.b64decode(found[1])) == data
