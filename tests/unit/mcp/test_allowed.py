"""Only regular files below the folders are allowed, under any name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.errors import UsageError
from memreplay.mcp import allowed as module
from memreplay.mcp.allowed import Allowed


@pytest.fixture
def allowed(folder: Path) -> Allowed:
    return Allowed([str(folder)])


def refusal(allowed: Allowed, name: str) -> str:
    with pytest.raises(UsageError) as caught:
        allowed.file(name)
    words = str(caught.value)
    assert "\n" not in words
    return words


@pytest.mark.parametrize(
    "name",
    ["run/serving_oom.pkl.gz", "./run/../run/serving_oom.pkl.gz", "{}/run/serving_oom.pkl.gz"],
)
def test_file_below_the_folder_is_opened(allowed: Allowed, folder: Path, name: str) -> None:
    file = allowed.file(name.format(folder))
    assert file.name == "run/serving_oom.pkl.gz"
    assert file.path == str(folder.resolve() / "run/serving_oom.pkl.gz")
    with allowed.open(file) as source:
        assert source.read() == (folder / file.name).read_bytes()
        assert source.name == file.name


def test_links_inside_the_folder_are_followed(allowed: Allowed, folder: Path) -> None:
    (folder / "link.pkl").symlink_to("small.pkl")
    (folder / "linked").symlink_to("run")
    assert allowed.file("link.pkl").name == "small.pkl"
    file = allowed.file("linked/serving_oom.pkl.gz")
    with allowed.open(file) as source:
        assert source.read(2) == b"\x1f\x8b"


def test_paths_outside_the_folder_are_refused(
    allowed: Allowed, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.pkl"
    secret.write_bytes(b"secret")
    beside = tmp_path / "dumps2"
    beside.mkdir()
    (beside / "a.pkl").write_bytes(b"")
    (folder / "out.pkl").symlink_to(secret)
    (folder / "outside").symlink_to(tmp_path)
    (folder / "gone.pkl").symlink_to(tmp_path / "none")
    names = [
        "../secret.pkl",
        "run/../../secret.pkl",
        str(secret),
        "out.pkl",
        "outside/secret.pkl",
        "gone.pkl",
        "../none.pkl",
        "../dumps2/a.pkl",  # a folder whose name starts like the allowed one
        "/etc/passwd",
        "..",
        ".",
        str(folder),
        "~/x.pkl/../../../../../../../etc/passwd",
    ]
    only = f"this server only reads files below {folder.resolve()}"
    for name in names:
        assert refusal(allowed, name) == f"{name}: not allowed: {only}"
        assert not allowed.may_read(os.path.join(folder, name))
    assert refusal(allowed, "file:///etc/passwd").endswith(f": URLs can't be read: {only}")
    assert "URLs" in refusal(allowed, "s3://bucket/a.pkl")


def test_anything_but_a_regular_file_is_refused(allowed: Allowed, folder: Path) -> None:
    os.mkfifo(folder / "pipe.pkl")
    (folder / "loop.pkl").symlink_to("loop.pkl")
    assert refusal(allowed, "pipe.pkl") == "pipe.pkl: not allowed: it isn't a regular file"
    assert "this is a directory; the tool files lists what is in it" in refusal(allowed, "run")
    assert refusal(allowed, "none.pkl") == ("none.pkl: no such file; the tool files lists them")
    assert "no such file" in refusal(allowed, "loop.pkl")
    for name in ("", "a\0b", "x" * 5000):
        assert refusal(allowed, name) == "give a file as listed by the tool files"
    assert not allowed.may_read(str(folder / "pipe.pkl"))


def test_kernel_files_are_always_refused() -> None:
    whole = Allowed(["/"])
    for name in (
        "/proc/self/environ",
        "/dev/null",
        "/dev/zero",
        "/sys/kernel/notes",
        "proc/1/fd/0",
    ):
        assert "not allowed" in refusal(whole, name)
        assert not whole.may_read(name)


def test_root_folder_allows_every_regular_file(folder: Path) -> None:
    whole = Allowed(["/"])
    file = whole.file(str(folder / "small.pkl"))
    assert file.name == str(folder.resolve() / "small.pkl")[1:]
    assert whole.file(file.name) == file
    with whole.open(file) as source:
        assert source.read() == (folder / "small.pkl").read_bytes()


def test_files_of_several_folders_are_named_with_their_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "small.pkl").write_bytes(b"other")
    both = Allowed([str(folder), str(other), str(folder)])
    assert both.roots == (str(folder.resolve()), str(other.resolve()))
    # Each file has the name that `files` lists, so the two can be told apart.
    for root in both.roots:
        name = f"{root}/small.pkl"
        assert both.file(name).name == name
    assert both.file("small.pkl").root == both.roots[0]
    assert both.file("run/serving_oom.pkl.gz").root == both.roots[0]
    assert "below " + ", ".join(both.roots) in refusal(both, "../x")


def test_folders_must_exist(folder: Path) -> None:
    for name in (str(folder / "none"), str(folder / "small.pkl")):
        with pytest.raises(UsageError, match=": no such folder"):
            Allowed([name])


def test_file_replaced_before_it_is_opened_is_refused(allowed: Allowed, folder: Path) -> None:
    file = allowed.file("small.pkl")
    (folder / "small.pkl").write_bytes(b"longer than it was" * 100)
    with pytest.raises(UsageError, match=r"small\.pkl: it was just replaced; try again"):
        allowed.open(file)


def test_path_swapped_before_it_is_opened_is_refused(
    allowed: Allowed, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "serving_oom.pkl.gz").write_bytes(b"secret")
    file = allowed.file("run/serving_oom.pkl.gz")
    (folder / "run").rename(folder / "before")
    (folder / "run").symlink_to(outside)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="run"):
        allowed.open(file)
    # -
    small = allowed.file("small.pkl")
    (folder / "small.pkl").unlink()
    (folder / "small.pkl").symlink_to(outside / "serving_oom.pkl.gz")
    with pytest.raises(OSError, match="small"):
        allowed.open(small)
    # Checking a pipe doesn't wait for a writer.
    (folder / "small.pkl").unlink()
    os.mkfifo(folder / "small.pkl")
    with pytest.raises(UsageError, match="isn't a regular file"):
        allowed.open(small)
    assert len(os.listdir("/dev/fd")) == before


def test_files_are_checked_without_linux_features(folder: Path) -> None:
    for name in ("_NOFOLLOW", "_NONBLOCK", "_CLOEXEC", "_DIRECTORY"):
        assert getattr(module, name)  # on Linux and macOS, which memreplay supports
