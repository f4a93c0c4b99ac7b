"""page: a fleet's page has the same content as the report."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.fleet.page import page_of_fleet
from memreplay.export.page.fleet_records import FleetPage
from memreplay.export.page.html import page_html
from memreplay.render.blocks import HeadingBlock
from tests.conftest import ROOT
from tests.layouts import MIB, put_snapshot
from tests.unit.export.page.reading import decoded
from tests.unit.fleets.rows import broken, rank, report

FOLDER = ROOT / "examples" / "fsdp_odd_ranks"
SAME = {"weights": 100, "activations": 50}


def curves_of(page: FleetPage, columns: list[bytes]) -> list[list[int]]:
    data = zlib.decompress(columns[0])
    numbers = iter(decoded(data, page.curves))
    return [[next(numbers) for _ in range(one.moments)] for one in page.ranks]


def test_page_of_a_real_run_matches_the_report() -> None:
    found = mr.fleet(str(FOLDER), workers=1)
    page, columns = page_of_fleet(found)
    assert [one.rank for one in page.ranks] == list(range(8))
    assert curves_of(page, columns) == [list(one.devices[0].curve_bytes) for one in found.ranks]
    for one, row in zip(page.ranks, found.ranks, strict=True):
        own = row.devices[0]
        assert (one.peak_bytes, one.reserved_bytes) == (own.peak_bytes, own.reserved_peak_bytes)
        assert (one.device, one.step) == (own.device, own.step.number if own.step else None)
        named = [(page.texts[part.text], part.bytes) for part in one.holders]
        assert named == [(part.label, part.bytes) for part in own.holders[:8]]
        assert sum(part.bytes for part in one.categories) == one.peak_bytes
    assert [one.group for one in page.ranks] == [0] * 5 + [1] + [0] * 2
    assert [one.typical for one in page.ranks] == [None] * 5 + [4] + [None] * 2
    assert page.groups[1].name == "rank 5"
    assert page.groups[1].differs[0].startswith("+176.8 MiB keep_history /workspace/fsdp_odd/")
    assert "21.4% over the median" in page.headline
    assert isinstance(page.report[1], HeadingBlock)
    assert page.headline == page.report[1].text


def test_curves_that_cannot_be_compared_are_left_out() -> None:
    rows = [
        rank(0, SAME, curve_by="steps", curve_bytes=(1, 2)),
        rank(1, SAME, curve_by="steps", curve_bytes=(3,)),
        rank(2, SAME, curve_by="events", curve_bytes=(4,) * 64),
        broken(3),
    ]
    page, columns = page_of_fleet(report(*rows))
    assert (page.curve_by, page.doubt) == (
        "steps",
        "some files weren't read or aren't trustworthy: see the report",
    )
    assert curves_of(page, columns) == [[1, 2], [3], [], []]
    last = page.ranks[3]
    assert (last.status, last.error, last.device, last.group) == (
        "unreadable",
        "not a pickle",
        None,
        None,
    )


def test_page_says_that_no_file_was_read() -> None:
    page, columns = page_of_fleet(report(broken(0)))
    assert page.headline.startswith("1 rank: no file was read")
    assert curves_of(page, columns) == [[]]


def test_names_are_escaped() -> None:
    nasty = "</script><b>\x1b[31m\u202e"
    rows = [replace(rank(0, {nasty: 100}), host=nasty, file=nasty), rank(1, SAME)]
    text = b"".join(page_html(*page_of_fleet(report(*rows)), "fleet")).decode()
    assert text.count("</script>") == 3
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.slow
def test_command_writes_a_page(runner: CliRunner, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    asked = ["fleet", str(FOLDER), "--workers", "1", "--write", f"html={out}"]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0
    assert re.fullmatch(
        rf"memreplay: wrote {out}: [\d.]+ KiB, 8 ranks; open it in a browser\n", done.stderr
    )
    text = out.read_text()
    (said,) = re.findall(r'id="memreplay-page">(.*?)</script>', text)
    assert json.loads(said)["schema"] == "memreplay.fleet_page/1"
    (columns,) = re.findall(r'class="memreplay-columns">(.*?)</script>', text)
    assert zlib.decompress(b64decode(columns))
    assert done.stdout == runner.invoke(app, asked[:4]).stdout
    again = runner.invoke(app, asked)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "already exists; give --force to replace it" in again.stderr
    assert runner.invoke(app, [*asked, "--force"]).exit_code == 0


@pytest.mark.slow
def test_every_page_is_written_and_stdout_has_only_a_page(
    runner: CliRunner, tmp_path: Path
) -> None:
    out = tmp_path / "a.html", tmp_path / "b.html"
    asked = ["fleet", str(FOLDER), "--workers", "1"]
    targets = [word for path in (*out, "-") for word in ("--write", f"html={path}")]
    done = runner.invoke(app, [*asked, *targets])
    assert done.exit_code == 0
    texts = {done.stdout, *(one.read_text() for one in out)}
    assert len(texts) == 1
    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.rstrip().endswith("</html>")


@pytest.mark.parametrize("more", [["--force"], ["--tables", "usage"]])
def test_output_options_need_a_page(runner: CliRunner, more: list[str]) -> None:
    done = runner.invoke(app, ["fleet", str(FOLDER), *more])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "-o DIR" in done.stderr


def test_each_device_of_a_file_has_a_row(tmp_path: Path) -> None:
    path = put_snapshot(tmp_path / "snap.pickle", 50, 200)
    page, _ = page_of_fleet(mr.fleet(str(path), workers=1))
    assert [(one.rank, one.device, one.peak_bytes) for one in page.ranks] == [
        (0, 0, 50 * MIB),
        (1, 1, 200 * MIB),
    ]
    assert page.headline.startswith("2 devices: highest peak 200.0 MiB requested on device 1")
    assert page.noun == "device"
    assert [one.name for one in page.groups] == ["device 0", "device 1"]
    linked, _ = page_of_fleet(mr.fleet(str(path), workers=1), links={str(path): "snap.html"})
    assert [one.page for one in linked.ranks] == ["snap.html#device=0", "snap.html#device=1"]
    two = page_of_fleet(report(rank(0, SAME), rank(1, SAME)))[0]
    assert (two.noun, two.groups[0].name) == ("rank", "ranks 0, 1")
