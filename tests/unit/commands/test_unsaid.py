"""Values missing from a file are null in JSON and a dash in text, never 0, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.fleet.page import page_of_fleet
from tests import build
from tests.build import SnapshotBuilder
from tests.kineto import Kineto

MIB = 1 << 20
BASE = 0x7F0000000000


@pytest.fixture(params=["trace of the profiler", "snapshot without segments"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Create a file without the reserved bytes."""
    file = tmp_path / "one"
    if request.param.startswith("trace"):
        trace = Kineto().memory(1, BASE, 2 * MIB, 2 * MIB).memory(2, BASE, -2 * MIB, 0)
        file.write_bytes(trace.memory(3, BASE, MIB, MIB).json())
    else:
        made = SnapshotBuilder().alloc(BASE, 2 * MIB).free(BASE, 2 * MIB).alloc(BASE, MIB)
        file.write_bytes(build.dump(made.build()))
    return str(file)


def found(*args: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*args, "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def said(*args: str) -> str:
    return " ".join(CliRunner().invoke(app, args).output.split())


def test_unknown_reserved_memory_is_null_in_json(path: str) -> None:
    device = found("report", path)["devices"][0]
    names = ("reserved_peak_bytes", "reserved_peak_event", "reserved_exactness", "unused")
    assert [device[name] for name in names] == [None] * 4
    assert device["fragmentation"] is None
    assert device["missing_parts"]["fragmentation"].startswith("reserved memory isn't known")
    end = device["oom"]["end"]
    assert end["active_bytes"] == MIB
    assert (end["reserved_bytes"], end["cached_bytes"], end["largest_free_bytes"]) == (None,) * 3
    *others, reserved = found("summary", path)["devices"][0]["measures"]
    assert reserved.pop("measure") == "reserved"
    assert {name for name, value in reserved.items() if value is None} == {
        *("start_bytes", "peak_bytes", "peak_event", "peak_us", "lowest_bytes", "mean_bytes"),
        *("end_bytes", "reconciliation_bytes"),
    }
    assert all(one["peak_bytes"] == 2 * MIB for one in others)
    assert found("simulate", path)["devices"][0]["recorded"] is None
    fleet = found("fleet", path)
    assert fleet["reserved"] is None
    assert fleet["ranks"][0]["devices"][0]["reserved_peak_bytes"] is None
    assert fleet["ranks"][0]["devices"][0]["unused_bytes"] is None


def test_unknown_reserved_memory_is_null_on_the_page_of_a_fleet(path: str) -> None:
    page, _ = page_of_fleet(mr.fleet(path, workers=1))
    assert [(one.peak_bytes, one.reserved_bytes) for one in page.ranks] == [(2 * MIB, None)]


def test_unknown_reserved_memory_is_not_0_in_text(path: str) -> None:
    assert "reserved - - - -" in said("summary", path)
    words = said("simulate", path)
    assert "unknown in the recording" in words
    assert "more than recorded" not in words
    assert "reserved 0 B" not in said("fleet", path)
    assert "0 B shown" not in said("peak", path)


@pytest.mark.parametrize(
    "args",
    [["peak", "--measure", "reserved"], ["fragmentation"], ["timeline", "--measure", "reserved"]],
)
def test_reports_on_reserved_memory_only_are_an_error(path: str, args: list[str]) -> None:
    done = CliRunner().invoke(app, [*args, path])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "reserved memory isn't known" in done.stderr


def test_timeline_leaves_out_unknown_reserved_memory(path: str) -> None:
    answer = found("timeline", path, "--measure", "requested,reserved")
    assert [one["measure"] for one in answer["devices"]] == ["requested"]


def test_gate_cannot_judge_unknown_reserved_memory(path: str) -> None:
    done = CliRunner().invoke(app, ["gate", path, "--max-reserved", "1GiB", "--allow-untrusted"])
    assert done.exit_code == 1
    assert "couldn't be checked: the file doesn't say what was reserved" in done.output


def test_peak_is_unknown_without_an_allocation(tmp_path: Path) -> None:
    builder = SnapshotBuilder()
    held = [builder.block(BASE, 512), builder.block(BASE + 512, 2 * MIB - 512, state="inactive")]
    builder.segment(BASE, 2 * MIB, blocks=held)
    path = tmp_path / "one.pkl"
    path.write_bytes(build.dump(builder.snapshot_event(512).build()))
    for command in ("peak", "timeline"):
        words = said(command, str(path))
        assert (
            "device 0: no allocation was recorded; 512 B requested before the first of 1" in words
        )
        assert "at the start" not in words
        assert "the peak shown" not in words
    assert "requested 512 B 512 B - 512 B exact for the final state" in said("summary", str(path))
