"""Test the command line as users and scripts see it: real processes, real files and exit codes."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import memreplay
from ci.schemas import all_schemas
from tests import bad_files, build, oracle, oracle_measures
from tests.conftest import ROOT
from tests.kineto import Kineto

EXAMPLE = ROOT / "tests/data" / "transformer_step.pkl.gz"


def run(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `memreplay ARGS` in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "memreplay", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **env},
        check=False,
    )


def load(*args: str | Path) -> Any:
    done = run(*args, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def example() -> Any:
    return oracle.load(gzip.decompress(EXAMPLE.read_bytes()))


def schema(name: str) -> Any:
    return all_schemas()[f"{name}-1.json"]


@pytest.mark.parametrize("by", ["stack", "line", "file", "function"])
def test_peak_json_matches_the_oracle(example: Any, by: str) -> None:
    found = load("peak", EXAMPLE, "--top", "0", "--by", by)
    jsonschema.validate(found, schema("peak"))
    want = oracle.replay(example, 0)
    assert found["schema"] == "memreplay.peak/1"
    (device,) = found["devices"]
    assert device["peak_bytes"] == want.peak_bytes
    assert device["peak_event"] == want.event_index
    assert device["carried_over_bytes"] == want.carried_over_bytes
    assert device["end_bytes"] == want.end_bytes
    assert device["events"] == len(want.usage)
    assert device["peak_us"] == example["device_traces"][0][want.event_index]["time_us"]
    assert sum(g["bytes"] for g in device["groups"]) == want.peak_bytes
    assert sum(g["count"] for g in device["groups"]) == len(want.live_at(want.event_index))


@pytest.mark.parametrize("measure", ["held", "reserved"])
def test_other_measures_match_the_oracle(example: Any, measure: str) -> None:
    found = load("peak", EXAMPLE, "--measure", measure, "--by", "pool", "--peaks", "3")
    jsonschema.validate(found, schema("peak"))
    want = getattr(oracle_measures, measure)(example, 0)
    series = [want.carried_over_bytes, *want.usage]
    (device,) = found["devices"]
    assert (device["measure"], device["exactness"], device["reasons"]) == (measure, "exact", [])
    assert (device["peak_bytes"], device["peak_event"]) == (
        max(series),
        series.index(max(series)) - 1,
    )
    assert (device["carried_over_bytes"], device["end_bytes"]) == (series[0], series[-1])
    assert device["peaks"][0]["bytes"] == max(series)
    assert sum(pool["bytes"] for pool in device["pools"]) == max(series)
    assert [pool["pool"] for pool in device["pools"]] == [[0, 0]]


@pytest.mark.parametrize("measure", ["active", "allocated"])
def test_block_measures_are_estimated_and_match_summary(measure: str) -> None:
    (device,) = load("peak", EXAMPLE, "--measure", measure)["devices"]
    assert (device["exactness"], device["reasons"]) == ("estimated", ["blocks_assumed"])
    (summary,) = load("summary", EXAMPLE)["devices"]
    # Everything is in use at the end of this file, so both ends match the segments.
    assert device["end_bytes"] == summary["active_bytes"]
    (same,) = (one for one in summary["measures"] if one["measure"] == measure)
    assert (
        same["peak_bytes"]
        == device["peak_bytes"]
        >= load("peak", EXAMPLE)["devices"][0]["peak_bytes"]
    )


@pytest.mark.parametrize("measure", ["requested", "held", "active", "allocated", "reserved"])
def test_measures_of_a_range_match_the_whole(measure: str) -> None:
    replay = memreplay.open(EXAMPLE).replay()
    whole = replay.measure(measure)  # type: ignore[arg-type]
    found = load("peak", EXAMPLE, "--measure", measure, "--from", "3000", "--to", "7000")
    (device,) = found["devices"]
    # A range may leave out the evidence for the size of a block that is live at its start.
    most = 0 if device["exactness"] == "exact" else 20 << 20
    want = whole.series[2999], whole.series[6999], whole.series[2999:7000].max()
    assert 0 <= want[0] - device["carried_over_bytes"] <= most
    assert 0 <= want[1] - device["end_bytes"] <= most
    assert 0 <= want[2] - device["peak_bytes"] <= most
    done = run("peak", EXAMPLE, "--measure", measure, "--from", "3000", "--to", "7000")
    assert re.search(rf"\nmeasure +{measure}, {device['exactness']}\n", done.stdout)
    assert "events 3,000 to 6,999 of 10,000" in done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["--only", "pool=nonsense"],
            "'nonsense' is not a pool; give its two numbers (0:1), or default",
        ),
        (["--only", "pool=9:9"], "device 0 has no pool 9:9; its pools: 0:0"),
        (["--only", "stream=5"], "device 0 has no stream 5; its streams: "),
        (
            ["--measure", "reserved", "--by", "size"],
            "grouped by pool or stream, or by the requesting code (",
        ),
        (["--measure", "reserved", "--only", "pool=9:9"], "device 0 has no pool 9:9"),
        (["--measure", "free"], "'free' is not one of 'requested', 'held'"),
    ],
)
def test_invalid_measure_is_a_usage_error(arguments: list[str], words: str) -> None:
    done = run("peak", EXAMPLE, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["peak", "summary"])
def test_strict_fails_on_an_inconsistent_trace(tmp_path: Path, command: str) -> None:
    assert run(command, EXAMPLE, "--strict").returncode == 0
    path = tmp_path / "lost.pkl"
    builder = build.SnapshotBuilder().alloc(0x1000, 64).alloc(0x1000, 64)
    path.write_bytes(build.dump(builder.finish_segments().build()))
    assert run(command, path).returncode == 0
    done = run(command, path, "--strict")
    assert done.returncode == 1
    assert "warning: addresses were allocated while they were still live" in done.stdout
    assert run(command, path, "--strict", "--format", "json").returncode == 1


def test_peak_groups_by_stack_match_the_oracle(example: Any) -> None:
    (device,) = load("peak", EXAMPLE, "--top", "0")["devices"]
    found = {
        tuple((f["function"], f["file"], f["line"]) for f in g["frames"]): (g["bytes"], g["count"])
        for g in device["groups"]
    }
    want = oracle.replay(example, 0)
    assert found == want.groups_by_stack(want.event_index)


def test_top_groups_and_the_rest_add_up_to_the_peak() -> None:
    (device,) = load("peak", EXAMPLE, "--top", "3")["devices"]
    assert len(device["groups"]) == 3
    shown = sum(g["bytes"] for g in device["groups"])
    assert shown + device["rest_bytes"] == device["peak_bytes"]


def test_summary_json_matches_the_oracle(example: Any) -> None:
    found = load("summary", EXAMPLE)
    jsonschema.validate(found, schema("summary"))
    assert found["schema"] == "memreplay.summary/1"
    assert found["file_bytes"] == EXAMPLE.stat().st_size
    (device,) = found["devices"]
    segments = example["segments"]
    blocks = [b for s in segments for b in s["blocks"] if b["state"] != "inactive"]
    assert device["segments"] == len(segments)
    assert device["reserved_bytes"] == sum(s["total_size"] for s in segments)
    assert device["active_bytes"] == sum(b["size"] for b in blocks)
    assert device["requested_bytes"] == sum(b["requested_size"] for b in blocks)
    actions = [e["action"] for e in example["device_traces"][0]]
    assert device["actions"] == {a: actions.count(a) for a in sorted(set(actions), key=str)}
    assert device["reconciliation_bytes"] == 0
    assert device["trusted"] is True
    assert device["reasons"] == ["blocks_assumed", "recording_begun_late"]
    measures = {one["measure"]: one for one in device["measures"]}
    for name, want in (
        ("held", oracle_measures.held(example, 0)),
        ("reserved", oracle_measures.reserved(example, 0)),
    ):
        assert measures[name]["start_bytes"] == want.carried_over_bytes
        assert measures[name]["peak_bytes"] == max(want.carried_over_bytes, *want.usage)
        assert measures[name]["end_bytes"] == want.end_bytes
        assert measures[name]["reconciliation_bytes"] == want.reconciliation_bytes == 0


def test_reports_fit_the_terminal_width() -> None:
    for width in (60, 80, 160):
        for command in ("peak", "summary"):
            done = run(command, EXAMPLE, COLUMNS=str(width))
            assert done.returncode == 0
            assert max(map(len, done.stdout.splitlines())) <= width


def test_all_frames_are_shown_on_request() -> None:
    assert "CUDACachingAllocator" not in run("peak", EXAMPLE).stdout
    assert "CUDACachingAllocator" in run("peak", EXAMPLE, "--all-frames", "--top", "1").stdout or (
        "runpy" in run("peak", EXAMPLE, "--all-frames").stdout
    )


def test_device_option_selects_one_device(tmp_path: Path) -> None:
    builder = build.SnapshotBuilder(devices=3)
    builder.alloc(0x1000, 100, device=0).alloc(0x1000, 700, device=2)
    path = tmp_path / "two.pkl"
    path.write_bytes(build.dump(builder.finish_segments().build()))
    assert [d["peak_bytes"] for d in load("peak", path)["devices"]] == [100, 700]
    assert [d["device"] for d in load("peak", path, "--device", "2")["devices"]] == [2]
    done = run("peak", path, "--device", "1")
    assert done.returncode == 2
    assert "0, 2" in done.stderr


# ---- errors: one line that says what, where and what to do; the exit code ----------------


def bad_inputs(folder: Path) -> dict[str, tuple[Path, int, str]]:
    """Return name -> (path, exit code, part of the line)."""
    good = build.dump(build.SnapshotBuilder().alloc(0x1000, 64).finish_segments().build())
    foreign = bad_files.not_a_snapshot()
    cases: dict[str, tuple[bytes, int, str]] = {
        "empty": (b"", 3, "empty"),
        "png": (b"\x89PNG\r\n\x1a\n" + bytes(50), 3, "PNG"),
        "checkpoint": (b"PK\x03\x04" + bytes(50), 3, "torch.save"),
        "legacy": (bad_files.legacy_torch_save(), 3, "torch.save"),
        "text": (b"hello there, this is no pickle", 3, "byte 0"),
        "json": (b'{"segments": [}', 3, "broken JSON"),
        "json cut": (b'{"segments": [', 4, "truncated JSON"),
        "call": (bad_files.calls_function(2), 3, "system"),
        "call 4": (bad_files.calls_function(4, inside=True), 3, "system"),
        "cut": (good[:-20], 4, "truncated"),
        "gzip cut": (gzip.compress(good)[:-15], 4, "truncated"),
        "gzip damaged": (gzip.compress(good)[:30] + b"\xff" * 40, 3, "gzip"),
    }
    for name in sorted(foreign):
        if name not in cases:
            cases[f"foreign {name}"] = (foreign[name], 3, "")
    out = {}
    for name, (data, code, words) in cases.items():
        path = folder / name.replace(" ", "_")
        path.write_bytes(data)
        out[name] = (path, code, words)
    out["missing"] = (folder / "nowhere.pkl", 3, "no such file")
    out["directory"] = (folder, 3, "directory")
    return out


@pytest.mark.slow
@pytest.mark.parametrize("command", ["peak", "summary", "export --format txt"])
def test_every_error_is_one_line(tmp_path: Path, command: str) -> None:
    for name, (path, code, words) in bad_inputs(tmp_path).items():
        done = run(*command.split(), path)
        assert done.returncode == code, (name, done)
        assert done.stdout == "", name
        assert len(done.stderr.splitlines()) == 1, (name, done.stderr)
        assert re.match(r"memreplay: error: .+", done.stderr), name
        assert words.lower() in done.stderr.lower(), (name, done.stderr)
        assert "Traceback" not in done.stderr


def test_unreadable_file_does_not_hide_readable_ones(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(b"")
    done = run("summary", bad, EXAMPLE)
    assert done.returncode == 3
    assert "10,000 events" in done.stdout
    assert "empty" in done.stderr


def test_dump_into_a_closed_pipe_ends_quietly() -> None:
    command = (
        f"set -o pipefail; {sys.executable} -m memreplay export {EXAMPLE} --format txt | head -2"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert done.stdout.startswith("snapshot file=")


def test_dump_is_not_written_to_a_terminal() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "export", EXAMPLE, "--format", "txt"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert re.fullmatch(r"memreplay: error: .* terminal; .* or --force\n", done.stderr)


def test_salvage_is_not_suggested_if_nothing_can_be_read(tmp_path: Path) -> None:
    data = gzip.decompress(EXAMPLE.read_bytes())
    path = tmp_path / "cut.pkl"
    # The first 20 bytes contain nothing, and the first 20,000 some segments; the trace comes later.
    for size, without, code in ((20, True, 4), (20_000, True, 5), (500_000, False, 0)):
        path.write_bytes(data[:size])
        done = run("peak", path)
        told = "too early to tell anything, even with --salvage" in done.stderr
        assert (done.returncode, told) == (4, without), done.stderr
        assert ("read the intact part" in done.stderr) is not without
        assert run("peak", path, "--salvage").returncode == code


def test_snapshot_is_read_from_standard_input() -> None:
    with EXAMPLE.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "memreplay", "peak", "-", "--format", "json"],
            stdin=file,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["devices"][0]["events"] == 10_000


def test_version_and_help_import_no_large_packages() -> None:
    code = (
        "import sys; from memreplay.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'memreplay._core', 'memreplay.snapshot.snapshot'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    for flag in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", code, flag], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]"


def test_peak_does_not_import_numpy() -> None:
    code = "import sys; sys.modules['numpy'] = None; from memreplay.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "peak", str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "5.1 GiB" in done.stdout


def test_interrupt_stops_reading_at_once(tmp_path: Path) -> None:
    # An endless pickle keeps the reader busy until the signal arrives.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    child = subprocess.Popen(
        [sys.executable, "-m", "memreplay", "peak", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    item = b"N0" * 4096
    sent = 0
    with fifo.open("wb", buffering=0) as pipe:
        pipe.write(b"\x80\x04")
        # Once the first window has been consumed, reading has begun, however slowly the process
        # started.
        while sent < 3_000_000:
            sent += pipe.write(item)
        child.send_signal(signal.SIGINT)
        after = 0
        with contextlib.suppress(BrokenPipeError):
            while child.poll() is None and after < 8 << 20:
                after += pipe.write(item)
    child.wait(60)
    assert child.returncode == 130
    # After the signal, at most a window of 1 MiB and the pipe's buffer are sent. The limit is in
    # bytes, not seconds, because the machine may be busy.
    assert after < 3 << 20
    assert child.stderr is not None
    assert b"Traceback" not in child.stderr.read()
    child.stderr.close()
    assert child.stdout is not None
    child.stdout.close()


@pytest.mark.parametrize("command", ["peak", "summary"])
def test_salvage_reads_the_complete_part(tmp_path: Path, command: str) -> None:
    path = tmp_path / "cut.pkl"
    data = gzip.decompress(EXAMPLE.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    assert run(command, path).returncode == 4
    done = run(command, path, "--salvage")
    assert done.returncode == 0
    assert "warning: the file is cut off" in done.stdout
    found = load(command, path, "--salvage")
    jsonschema.validate(found, schema(command))
    assert found["truncated"] is True
    assert found["devices"][0]["reasons"] == ["truncated"]
    assert load(command, EXAMPLE)["truncated"] is False


def test_fragmentation_and_oom_agree_on_the_example() -> None:
    file = ROOT / "tests/data" / "serving_oom.pkl.gz"
    found = load("oom", file, "--top", "0")
    jsonschema.validate(found, schema("oom"))
    (device,) = found["devices"]
    first, second = device["ooms"]
    assert (first["cause"], second["cause"]) == ("fragmentation", "fragmentation")
    assert first["needed_bytes"] - first["device_free_bytes"] == first["missing_bytes"]
    at = str(first["event_index"])
    same = load("fragmentation", file, "--at", at, "--map", "--top", "0")
    jsonschema.validate(same, schema("fragmentation"))
    (mapped,) = same["devices"]
    assert (mapped["free_bytes"], mapped["pinned_bytes"]) == (
        first["cached_bytes"],
        first["pinned_bytes"],
    )
    assert mapped["pins"] == first["pins"]
    active = load("peak", file, "--measure", "active", "--to", str(first["event_index"] + 1))
    in_map = sum(segment["in_use_bytes"] for segment in mapped["map"])
    assert in_map == first["active_bytes"] == active["devices"][0]["end_bytes"]
    assert run("oom", EXAMPLE).returncode == 0


def test_page_of_pytorchs_viewer_gives_the_same_report_as_its_snapshot(tmp_path: Path) -> None:
    plain = gzip.decompress(EXAMPLE.read_bytes())
    page = tmp_path / "trace_plot.html"
    page.write_bytes(bad_files.viewer_page(plain))
    packed = tmp_path / "trace_plot.html.gz"
    packed.write_bytes(gzip.compress(page.read_bytes()))
    want = load("peak", EXAMPLE)
    for file in (page, packed):
        assert load("peak", file) == {**want, "file": str(file)}
    assert run("gate", page, "--base", EXAMPLE, "--max-growth", "0%").returncode == 0
    out = tmp_path / "snap.pkl"
    assert run("export", page, "-o", out).returncode == 0
    assert out.read_bytes().rstrip(b"\0") == plain.rstrip(b"\0")
    empty = tmp_path / "empty.html"
    empty.write_text("<!DOCTYPE html><html></html>")
    done = run("peak", empty)
    assert done.returncode == 3
    assert "an HTML page without a snapshot in it" in done.stderr


def test_torch_profiler_traces_can_be_compared(tmp_path: Path) -> None:
    base, new = tmp_path / "base.json", tmp_path / "new.json.gz"
    for path, size in ((base, 1 << 20), (new, 3 << 20)):
        trace = Kineto()
        trace.span(0, 50, "train.py(3): main", "python_function").span(1, 40, "aten::empty")
        total = 4 << 20
        for step in range(6):
            trace.span(step * 100, 90, f"ProfilerStep#{step}", "user_annotation")
            for change in (size, -size):
                total += change
                time = step * 100 + (10 if change > 0 else 20)
                trace.memory(time, 1 << 30, change, total, 16 << 20)
        data = trace.json()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    (device,) = load("peak", new)["devices"]
    assert device["peak_bytes"] == 7 << 20
    assert device["trusted"]
    assert device["reasons"] == ["from_profiler"]
    assert [group["bytes"] for group in device["groups"]] == [4 << 20, 3 << 20]
    points = load("timeline", new)["devices"][0]
    assert points["peak_bytes"] == 7 << 20
    assert [one["change_bytes"] for one in load("diff", base, new)["devices"]] == [2 << 20]
    assert load("peak", new, "--measure", "reserved")["devices"][0]["peak_bytes"] == 16 << 20
    assert run("gate", new, "--max-peak", "7MiB", "--strict").returncode == 0
    failed = run("gate", new, "--max-peak", "6MiB")
    assert failed.returncode == 1
    said = run("summary", new).stdout
    assert "recorded by  torch.profiler, with the sizes of whole blocks" in said
    assert "no segments, streams or pools" in " ".join(said.split())
    assert len(load("steps", new)["devices"][0]["steps"]) == 6


def test_pick_chooses_one_of_several_snapshots(tmp_path: Path) -> None:
    plain = gzip.decompress(EXAMPLE.read_bytes())
    other = build.dump(build.SnapshotBuilder().alloc(4096, 5000).build())
    path = tmp_path / "two.pkl"
    path.write_bytes(plain + other)
    done = run("peak", path)
    assert done.returncode == 3
    assert "2 snapshots in one file; choose one: --pick 1, …, --pick 2" in done.stderr
    assert load("peak", path, "--pick", "1") == {**load("peak", EXAMPLE), "file": str(path)}
    assert load("peak", path, "--pick", "2")["devices"][0]["peak_bytes"] == 5000
    assert run("export", path, "-o", tmp_path / "out.pkl").returncode == 3
    out = tmp_path / "second.pkl"
    assert run("export", path, "--pick", "2", "-o", out).returncode == 0
    assert load("peak", out)["devices"][0]["peak_bytes"] == 5000
