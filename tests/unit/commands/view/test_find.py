"""Tests of commands/view/find.py: a page has the same numbers as the commands."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.commands.diff.text import diff_document
from memreplay.commands.report.text import report_document
from memreplay.commands.view import find
from memreplay.commands.view.find import compared_page, one_page, ranks_page, snapshot_data, view
from memreplay.commands.view.options import Given
from memreplay.errors import LimitError
from memreplay.export.page.records import PageReport
from memreplay.render.blocks import HeadingBlock, NoteBlock, PairsBlock, blocks_of
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.commands.view.pages import columns, records

EXAMPLE = ROOT / "examples/transformer_step.pkl.gz"


def snapshot(sizes: list[int], device: int = 0) -> mr.Snapshot:
    builder = SnapshotBuilder(devices=device + 1)
    for i, size in enumerate(sizes):
        builder.alloc(0x1000 * (i + 1), size, device=device, frames=[("f", "a/f.py", i)])
    return mr.open(build.dump(builder.build()))


def test_page_of_a_snapshot_matches_its_report() -> None:
    snap = mr.open(EXAMPLE)
    page, (data,) = one_page(snap)
    (said,) = page.snapshots
    assert (page.kind, page.title, page.diff) == ("one", EXAMPLE.name, None)
    assert (said.name, said.file) == (EXAMPLE.name, str(EXAMPLE))
    assert said.report is not None
    assert said.report.blocks == blocks_of(report_document(mr.report(snap, fold=True)))
    assert said.report.verdicts == {0: heading_of(said.report, 0)}
    assert {name: one.bytes for name, one in said.devices[0].peaks.items()} == {
        name: snap.replay().measure(name).peak.bytes for name in MEASURES
    }
    assert data


def heading_of(report: PageReport, device: int) -> str:
    """Return the device's heading in the report."""
    headings = [one.text for one in report.blocks if isinstance(one, HeadingBlock)]
    return next(text for text in headings if text.startswith(f"device {device}:"))


def test_reasons_are_the_trust_line_of_the_report() -> None:
    snap = mr.open(EXAMPLE)
    page, _ = one_page(snap)
    assert page.snapshots[0].report is not None
    assert page.snapshots[0].report.reasons == {}
    made = SnapshotBuilder().alloc(0x1000, 64).free(0x9000, 8).build()
    page, _ = one_page(mr.open(build.dump(made)))
    report = page.snapshots[0].report
    assert report is not None
    pairs = next(one for one in report.blocks if isinstance(one, PairsBlock))
    assert report.reasons == {0: dict(pairs.rows)["trust"]}
    assert report.reasons[0].startswith("Not trustworthy: the file has no segments")


def test_every_device_has_a_verdict() -> None:
    builder = SnapshotBuilder(devices=2)
    for device, size in enumerate((64, 128)):
        builder.alloc(0x1000, size, device=device)
    page, _ = one_page(mr.open(build.dump(builder.build())))
    report = page.snapshots[0].report
    assert report is not None
    assert report.verdicts[1] == heading_of(report, 1)  # the worst device
    assert report.verdicts[0].startswith("device 0: peak 64 B, no request failed, ")


def test_custom_rules_apply_to_report_and_groups() -> None:
    snap = snapshot([64, 32])
    rules = (mr.Rule("my own", frames="f"),)
    page, _ = one_page(snap, rules)
    (said,) = page.snapshots
    report = report_document(mr.report(snap, fold=True, rules=rules))
    assert said.report is not None
    assert said.report.blocks == blocks_of(report)
    assert said.report != one_page(snap)[0].snapshots[0].report
    (groups,) = (one for one in said.devices[0].groups if one.way == "category")
    assert "my own" in {said.texts[line[0]] for line in groups.lines}


def test_page_of_two_snapshots_matches_the_diff() -> None:
    base, new = snapshot([64, 32]), snapshot([64, 128])
    page, both = compared_page(base, new)
    assert page.kind == "compare"
    assert page.title == "<bytes> and <bytes>"
    assert page.diff == blocks_of(diff_document(mr.diff(base, new)))
    assert [one.report and one.report.blocks for one in page.snapshots] == [
        blocks_of(report_document(mr.report(one, fold=True))) for one in (base, new)
    ]
    assert len(both) == 2


def test_snapshots_without_a_common_device_are_compared() -> None:
    base, new = snapshot([64]), snapshot([64], device=1)
    page, _ = compared_page(base, new)
    # Each snapshot has only one device, so the devices are compared despite different numbers.
    assert page.diff is not None
    assert isinstance(page.diff[0], HeadingBlock)
    empty = mr.open(build.dump(SnapshotBuilder().build()))
    assert compared_page(base, empty)[0].diff is not None


def test_page_says_why_snapshots_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        raise mr.UsageError("the two\x07 differ")

    monkeypatch.setattr("memreplay.commands.diff.find.diff_report", cannot)
    page, _ = compared_page(snapshot([64]), snapshot([32]))
    assert page.diff == (NoteBlock("the two\\x07 differ", warning=True),)


def test_page_of_ranks_has_no_reports() -> None:
    ranks = {
        rank: snapshot_data(snapshot([64 + rank]), f"rank {rank}", report=False) for rank in (0, 7)
    }
    page, both = ranks_page("runs/a/", ranks)
    assert (page.kind, page.title, page.diff) == ("ranks", "a", None)
    assert [(one.name, one.report) for one in page.snapshots] == [
        ("rank 0", None),
        ("rank 7", None),
    ]
    assert both == [data for _, data in ranks.values()]


def test_empty_snapshot_has_a_page() -> None:
    page, (data,) = one_page(mr.open(build.dump(SnapshotBuilder(devices=0).build())))
    assert page.snapshots[0].devices == ()
    assert page.snapshots[0].report is not None
    assert len(data) < 100


def test_numbers_too_large_for_a_browser_are_rejected() -> None:
    most = 2**53
    one_page(snapshot([most - 512]))
    with pytest.raises(LimitError) as error:
        one_page(snapshot([most - 512, 1]))
    assert str(error.value) == (
        "device 0 goes up to 9,007,199,254,740,992 bytes, but browsers count exactly only up to"
        " 9,007,199,254,740,991; use memreplay report, which has no such limit"
    )
    with pytest.raises(LimitError):
        snapshot([2**54]).view()


def test_page_too_large_for_a_browser_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    small, (data,) = one_page(snapshot([64]))
    n_bytes = small.snapshots[0].bytes
    for name, most in (("MOST_PACKED", len(data)), ("MOST_BYTES", n_bytes)):
        with monkeypatch.context() as patch:
            patch.setattr(find, name, most)
            one_page(snapshot([64]))
            patch.setattr(find, name, most - 1)
            with pytest.raises(LimitError) as error:
                one_page(snapshot([64]))
            assert "--from and --to" in str(error.value)
    both = [(small.snapshots[0], data)] * 2
    monkeypatch.setattr(find, "MOST_IN_ALL", 2 * n_bytes)
    ranks_page("run", dict(enumerate(both)))
    monkeypatch.setattr(find, "MOST_IN_ALL", 2 * n_bytes - 1)
    with pytest.raises(
        LimitError,
        match=r"memreplay fleet 'a run' --write html=ranks\.html shows all ranks, at lower",
    ):
        ranks_page("a run", dict(enumerate(both)))
    with pytest.raises(LimitError):
        compared_page(snapshot([64]), snapshot([64]))


def test_notebook_page_matches_the_command() -> None:
    base, new = snapshot([64, 32]), snapshot([64, 128])
    found = base.view()
    assert found.html == view(base).html == mr.view(base).html
    assert (found.title, found.height) == ("<bytes>", 720)
    assert records(found.html)["kind"] == "one"
    both = base.view(new, height=400)
    assert both.html == view(base, new).html
    assert (records(both.html)["kind"], both.height) == ("compare", 400)
    assert len(columns(both.html)) == 2


def test_suggested_commands_repeat_the_project() -> None:
    data = build.dump(SnapshotBuilder().alloc(0x1000, 64, frames=[("f", "a/f.py", 1)]).build())
    page, _ = one_page(mr.open(data, project=("a",), stop=1))
    assert page.snapshots[0].options == ("--to", "1", "--project", "a")
    page, _ = one_page(mr.open(data, project=("a",)), given=Given(("--config", "none")))
    assert page.snapshots[0].options == ("--config", "none")
