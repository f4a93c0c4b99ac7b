"""Tests of commands/shared/folder.py: replacing several files together, or none."""

from __future__ import annotations

import os
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from memreplay.commands.shared.folder import folder_output
from memreplay.errors import UsageError
from memreplay.io.whole_files import Folder

NAMES = ("a.csv", "b.csv", "sub/rank=0/c.csv", "new/er/d.csv", "e.csv")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder: contents of files, and None for folders."""
    found = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in found}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Create a folder that already has some of the files, and an unrelated file."""
    made = tmp_path / "out"
    (made / "sub" / "rank=0").mkdir(parents=True)
    for name in (NAMES[0], NAMES[2], NAMES[4], "mine.txt"):
        (made / name).write_bytes(b"old " + name.encode())
    return made


def put(out: Path) -> None:
    with folder_output(str(out), NAMES, force=True) as create:
        for name in NAMES:
            with create(name) as file:
                file.write(b"new " + name.encode())


def test_files_are_replaced_and_others_kept(out: Path) -> None:
    before = out.stat().st_ino
    put(out)
    files = {name: text for name, text in tree(out).items() if text is not None}
    assert files == {name: b"new " + name.encode() for name in NAMES} | {
        "mine.txt": b"old mine.txt"
    }
    assert out.stat().st_ino == before  # may be a shell's working folder
    assert os.listdir(out.parent) == ["out"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [False, True])
def test_failed_rename_leaves_the_folder_unchanged(
    out: Path, error: BaseException, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(out)
    real = os.replace
    failed = 0
    while True:
        done = 0

        def replace(source: str, target: str, at: int = failed) -> None:
            nonlocal done
            done += 1
            if done - 1 == at and not after:
                raise error
            real(source, target)
            if done - 1 == at:
                raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                put(out)
            except type(error):
                assert tree(out) == before
                failed += 1
            else:
                break
    assert failed >= len(NAMES)


@pytest.mark.parametrize("after", [False, True])
def test_signal_at_any_rename_leaves_the_folder_unchanged(
    out: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(out)
    real = os.replace
    seen = 0

    def at_rename(number: int) -> bool:
        """Run the handler twice during this rename. Return whether the rename happens."""
        made: list[Folder] = []
        done = 0

        def replace(source: str, target: str) -> None:
            nonlocal done
            done += 1
            here = done == number
            if here and not after:
                made[0].undo()
                raise KeyboardInterrupt
            real(source, target)
            if here:
                made[0].undo()
                assert tree(out) == before
                made[0].undo()
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with suppress(KeyboardInterrupt), folder_output(str(out), NAMES, force=True) as create:
                made.append(create)
                for name in NAMES:
                    create(name).close()
        return done >= number

    while at_rename(seen + 1):
        assert tree(out) == before
        seen += 1
    assert seen >= len(NAMES)


def test_signal_after_the_last_step_changes_nothing(out: Path) -> None:
    with folder_output(str(out), NAMES, force=True) as create:
        for name in NAMES:
            create(name).close()
    create.undo()
    assert {name for name, text in tree(out).items() if text == b""} == set(NAMES)


@pytest.mark.parametrize("fails", [False, True])
def test_signal_during_cleanup_leaves_no_old_files(
    out: Path, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(out)
    removed = shutil.rmtree
    rename = os.replace
    made: list[Folder] = []
    seen = 0

    class Ended(BaseException):
        """An exception that stands for the end of the process."""

    def replace(source: str, target: str) -> None:
        if fails and source.endswith("e.csv"):
            raise OSError(5, "Input/output error")
        rename(source, target)

    def rmtree(path: str, *, ignore_errors: bool) -> None:
        nonlocal seen
        if path == made[0].old:
            seen += 1
            monkeypatch.undo()
            made[0].undo()
            assert os.listdir(out.parent) == ["out"]
            assert not [name for name in os.listdir(out) if name.endswith(".part")]
            raise Ended
        removed(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with suppress(Ended), folder_output(str(out), NAMES, force=True) as create:
        made.append(create)
        for name in NAMES:
            create(name).close()
    assert seen == 1
    if fails:
        assert tree(out) == before
    else:
        assert {name for name, text in tree(out).items() if text == b""} == set(NAMES)


def test_files_that_cannot_be_restored_are_kept_and_named(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace
    done = 0

    def replace(source: str, target: str) -> None:
        nonlocal done
        done += 1
        if done > 2:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(UsageError, match=r"the previous files are in .*\.part/old$") as refused:
        put(out)
    kept = Path(str(refused.value).rpartition(" are in ")[2])
    assert tree(kept) == {"a.csv": b"old a.csv"}


def test_folder_is_not_replaced_by_a_file(out: Path) -> None:
    (out / "b.csv").mkdir()
    (out / "b.csv" / "mine").write_bytes(b"mine")
    before = tree(out)
    with pytest.raises(UsageError, match=r"b\.csv is a folder"):
        put(out)
    assert tree(out) == before


def test_file_in_place_of_a_folder_is_an_error(out: Path) -> None:
    (out / "new").write_bytes(b"mine")
    before = tree(out)
    with pytest.raises(UsageError, match=r"new exists but isn't a folder"):
        put(out)
    assert tree(out) == before


def test_links_are_replaced_and_their_targets_kept(out: Path) -> None:
    (out / "b.csv").symlink_to("mine.txt")
    put(out)
    assert (out / "mine.txt").read_bytes() == b"old mine.txt"
    assert not (out / "b.csv").is_symlink()


def forked() -> int:
    """Call os.fork without its warning about threads, because there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def killed(out: Path, at: int) -> bool:
    """Kill the writer right before this rename. Return whether the rename happens."""
    real = os.replace
    done = 0

    def replace(source: str, target: str) -> None:
        nonlocal done
        if done == at:
            os._exit(1)
        done += 1
        real(source, target)

    pid = forked()
    if not pid:
        try:
            os.replace = replace  # type: ignore[assignment]
            put(out)
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


def test_kill_at_any_rename_is_repaired_by_the_next_run(out: Path) -> None:
    before = tree(out)
    at = 0
    while killed(out, at):
        assert [name for name in os.listdir(out) if name.endswith(".part")]
        # The next run repairs the folder even if it may not replace the files that it finds.
        with (
            pytest.raises(UsageError, match="already exists"),
            folder_output(str(out), NAMES, force=False),
        ):
            pass
        assert tree(out) == before
        at += 1
    assert at >= len(NAMES)
    assert not [name for name in os.listdir(out) if name.endswith(".part")]


def test_kill_leaves_no_new_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pid = forked()
    if not pid:
        with folder_output(str(out), NAMES, force=True) as create:
            create("a.csv").close()
            os._exit(1)
    os.waitpid(pid, 0)
    assert len(os.listdir(tmp_path)) == 1
    put(out)
    assert os.listdir(tmp_path) == ["out"]


def test_unreadable_targets_are_not_replaced(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.stat

    def stat(path: str, *, follow_symlinks: bool = True) -> os.stat_result:
        if str(path).endswith("a.csv"):
            raise OSError(5, "Input/output error")
        return real(path, follow_symlinks=follow_symlinks)

    before = tree(out)
    monkeypatch.setattr(os, "stat", stat)
    with (
        pytest.raises(UsageError, match=r"cannot write .*a\.csv: input/output error"),
        folder_output(str(out), NAMES, force=False),
    ):
        pass
    monkeypatch.undo()
    assert tree(out) == before
