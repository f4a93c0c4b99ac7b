"""Tests of commands/view/names.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.commands.view.names import page_name, short_name


@pytest.mark.parametrize(
    "file, name",
    [
        ("snap.pkl", "snap.html"),
        ("runs/1/snap.pkl.gz", "snap.html"),
        ("/tmp/SNAP.PICKLE.ZST", "SNAP.html"),
        ("snap.json", "snap.html"),
        ("a.b.pkl.xz", "a.b.html"),
        ("snap.dump", "snap.dump.html"),
        ("snap.gz", "snap.html"),
        ("pkl", "pkl.html"),
        (".pkl", "snapshot.html"),
        (".hidden.pkl", "hidden.html"),
        ("-snap.pkl", "snap.html"),
        ("-", "snapshot.html"),
        ("run/", "run.html"),
        ("run/ranks//", "ranks.html"),
        ("/", "snapshot.html"),
        ("https://host/d/snap.pkl.gz?key=a/b#c", "snap.html"),
        ("s3://bucket/run/", "run.html"),
        ("x" * 300 + ".pkl", "x" * 100 + ".html"),
    ],
)
def test_page_is_named_like_its_file(file: str, name: str) -> None:
    assert page_name([file]) == name


def test_page_of_two_snapshots_has_both_names() -> None:
    assert page_name(["old/before.pkl", "new/after.pkl.gz"]) == "before-after.html"
    assert page_name(["-", "after.pkl"]) == "snapshot-after.html"
    assert page_name(["old/snap.pkl", "new/snap.pkl"]) == "snap-snap.html"


def test_current_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert page_name(["."]) == "run.html"
    assert short_name("../run/.") == "run"


def test_common_file_names_get_the_folders_name() -> None:
    assert short_name("-") == "standard input"
    assert short_name("a/b.pkl") == "b.pkl"
    assert short_name("http://host/a/b.pkl?x=/y") == "b.pkl"
    assert short_name("<bytes>") == "<bytes>"
