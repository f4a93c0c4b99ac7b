"""Tests of io/whole_folder.py: undoing what a killed writer of a folder had replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from memreplay.io.whole_folder import NOTE, forget, note, remove_folder


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Write two new files, the first of which has replaced an old one."""
    made = tmp_path / "part"
    for name in ("a", "b"):
        for folder in (made / "new", made / "old"):
            folder.mkdir(parents=True, exist_ok=True)
        (made / "new" / name).write_bytes(b"new")
        (tmp_path / name).write_bytes(b"old " + name.encode())
    note(str(made), ["a", "b"], ["more", "more/below"])
    os.replace(tmp_path / "a", made / "old" / "a")
    os.replace(made / "new" / "a", tmp_path / "a")
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_old_files_get_their_names_back(part: Path) -> None:
    os.makedirs(part.parent / "more" / "below")
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"old a", "b": b"old b"}


def test_file_about_to_be_replaced_is_kept(part: Path) -> None:
    os.replace(part.parent / "b", part / "old" / "b")
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"old a", "b": b"old b"}


def test_new_file_is_removed(part: Path) -> None:
    (part / "old" / "a").unlink()
    remove_folder(str(part))
    assert files(part.parent) == {"b": b"old b"}


def test_files_written_by_others_meanwhile_are_kept(part: Path) -> None:
    (part.parent / "a").write_bytes(b"mine")
    os.replace(part.parent / "b", part / "old" / "b")
    (part.parent / "b").write_bytes(b"mine, too")
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"mine", "b": b"mine, too"}


def test_finished_work_is_not_undone(part: Path) -> None:
    forget(str(part))
    forget(str(part))
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"new", "b": b"old b"}


def test_truncated_note_means_nothing_was_renamed(part: Path) -> None:
    (part / NOTE).write_bytes((part / NOTE).read_bytes()[:9])
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"new", "b": b"old b"}


@pytest.mark.parametrize("name", ["../outside", "/outside", "below/../../outside"])
@pytest.mark.parametrize("key", ["files", "folders"])
def test_note_with_a_path_outside_the_folder_moves_nothing(part: Path, name: str, key: str) -> None:
    said = json.loads((part / NOTE).read_text())
    said[key] = {name: [1, 2, 3]} if key == "files" else [name]
    (part / NOTE).write_text(json.dumps(said))
    before = files(part / "old")
    with pytest.raises(PermissionError):
        remove_folder(str(part))
    assert files(part / "old") == before


def test_files_that_cannot_be_restored_are_kept(
    part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        remove_folder(str(part))
    assert files(part / "old") == {"a": b"old a"}
    monkeypatch.undo()
    remove_folder(str(part))
    assert files(part.parent) == {"a": b"old a", "b": b"old b"}
