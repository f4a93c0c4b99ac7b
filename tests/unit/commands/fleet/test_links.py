"""links: a fleet's page links to the pages that belong to its files, and to no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.commands.fleet.links import links_of
from memreplay.commands.fleet.page import page_of_fleet
from tests.layouts import put_snapshot


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a run of three ranks in the current folder."""
    monkeypatch.chdir(tmp_path)
    for rank in range(3):
        put_snapshot(tmp_path / "run" / f"rank{rank}.pickle", 5)
    return tmp_path


def view(snapshot: Path, page: Path) -> None:
    mr.open(snapshot).view().save(page)


def test_pages_beside_the_files_or_the_fleet_page_are_found(run: Path) -> None:
    view(run / "run" / "rank0.pickle", run / "run" / "rank0.html")
    view(run / "run" / "rank1.pickle", run / "rank1.html")
    files = [f"run/rank{rank}.pickle" for rank in range(3)]
    wanted = {"run/rank0.pickle": "run/rank0.html", "run/rank1.pickle": "rank1.html"}
    assert links_of(files, "fleet.html") == wanted
    assert links_of(files, "run/fleet.html") == {"run/rank0.pickle": "rank0.html"}
    assert links_of(files, str(run / "run" / "fleet.html")) == {"run/rank0.pickle": "rank0.html"}
    (run / "pages").mkdir()
    assert links_of(files, "pages/fleet.html") == {"run/rank0.pickle": "../run/rank0.html"}
    assert links_of(files, "-") == {}
    page, _ = page_of_fleet(mr.fleet("run", workers=1), links=wanted)
    assert [one.page for one in page.ranks] == ["run/rank0.html", "rank1.html", None]


def test_other_files_are_not_taken_for_pages(run: Path) -> None:
    files = [f"run/rank{rank}.pickle" for rank in range(3)]
    (run / "run" / "rank0.html").write_text("<title>notes</title>")
    # An older page is of an earlier dump.
    view(run / "run" / "rank1.pickle", run / "run" / "rank1.html")
    os.utime(run / "run" / "rank1.html", (1, 1))
    # The fleet's page itself isn't a rank's.
    view(run / "run" / "rank2.pickle", run / "rank2.html")
    assert links_of(files, "rank2.html") == {}
    assert links_of(files, "fleet.html") == {"run/rank2.pickle": "rank2.html"}
    assert links_of(["s3://bucket/run/rank2.pickle"], "fleet.html") == {}


def test_equal_names_in_several_folders_are_not_mixed_up(run: Path) -> None:
    files = []
    for rank in range(2):
        path = put_snapshot(run / f"rank{rank}" / "snapshot.pickle", 5)
        files.append(str(path.relative_to(run)))
    view(run / files[0], run / "snapshot.html")
    assert links_of(files, "fleet.html") == {}
    view(run / files[1], run / "rank1" / "snapshot.html")
    assert links_of(files, "fleet.html") == {files[1]: "rank1/snapshot.html"}


@pytest.mark.parametrize("name", ["a:b c#?", "javascript:x", "é%41"])
def test_names_are_quoted(run: Path, name: str) -> None:
    path = put_snapshot(run / name / "rank0.pickle", 5)
    view(path, path.with_suffix(".html"))
    (link,) = links_of([str(path.relative_to(run))], "fleet.html").values()
    assert not set(":#? ") & set(link)
    assert link.endswith("/rank0.html")
