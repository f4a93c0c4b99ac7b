"""listing: files, folders, patterns and URLs, on this machine and in a real object store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from memreplay.errors import MissingExtraError, SnapshotError, UsageError
from memreplay.io import ranges
from memreplay.io.listing import Listed, listed
from memreplay.io.walking import Unlisted
from tests.faulty_proxy import Faults, Proxy, proxy_of
from tests.layouts import refuse_folder
from tests.object_store import ObjectStore

NAMES = (
    *("run/rank10.pickle", "run/rank2.pickle", "run/deep/er/rank0.pkl.zst", "run/notes.txt"),
    *("run/.hidden/rank9.pickle", "run/.rank8.pickle", "run/trace.json", "other/step.json"),
)
SNAPSHOTS = ["deep/er/rank0.pkl.zst", "rank2.pickle", "rank10.pickle"]


def names(*patterns: str | Path) -> list[str]:
    return [entry.name for entry in listed([str(pattern) for pattern in patterns])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return tmp_path


@pytest.fixture
def memory(folder: Path) -> Iterator[str]:
    """Put the same files into fsspec's memory."""
    system = fsspec.filesystem("memory")
    for name in NAMES:
        system.pipe(f"/there/{name}", b"x" * len(name))
    yield "memory://there"
    system.store.clear()


@pytest.fixture
def bucket(store: ObjectStore, proxy: Proxy) -> Iterator[str]:
    """Put the same files into a folder in the bucket."""
    system = store.system()
    system.pipe({f"{store.bucket}/there/{name}": b"x" * len(name) for name in NAMES})
    yield f"s3://{store.bucket}/there"
    system.rm(f"{store.bucket}/there", recursive=True)


CASES = {
    "a folder": (["run"], SNAPSHOTS),
    "a folder, with its slash": (["run/"], SNAPSHOTS),
    "JSON where there is nothing else": (["other"], ["step.json"]),
    "a file": (["run/notes.txt"], ["notes.txt"]),
    "files twice": (["run/rank2.pickle", "run", "run/rank2.pickle"], SNAPSHOTS),
    "a pattern": (["run/rank*.pickle"], ["rank2.pickle", "rank10.pickle"]),
    "one letter": (["run/rank?.pickle"], ["rank2.pickle"]),
    "letters": (["run/rank[12]*"], ["rank2.pickle", "rank10.pickle"]),
    "any folders": (["run/**/rank*"], SNAPSHOTS),
    "folders": (["*/*.pickle"], ["rank2.pickle", "rank10.pickle"]),
    "snapshots among others": (["run/*"], ["rank2.pickle", "rank10.pickle"]),
    "no snapshots": (["run/*.txt"], ["notes.txt"]),
    "nothing but folders": (["ru*"], SNAPSHOTS),
    "two folders": (
        ["run", "other"],
        ["other/step.json", *(f"run/{name}" for name in SNAPSHOTS)],
    ),
    "many files": (
        ["run/rank2.pickle", "run/notes.txt", "run/rank10.pickle"],
        ["notes.txt", "rank2.pickle", "rank10.pickle"],
    ),
}


@pytest.mark.parametrize("patterns, expected", CASES.values(), ids=CASES)
def test_local_patterns_list_their_files(
    folder: Path, patterns: list[str], expected: list[str]
) -> None:
    assert names(*(f"{folder}/{pattern}" for pattern in patterns)) == expected
    assert names(*(f"file://{folder}/{pattern}" for pattern in patterns)) == expected


@pytest.mark.parametrize("patterns, expected", CASES.values(), ids=CASES)
def test_store_patterns_list_their_files(
    memory: str, bucket: str, patterns: list[str], expected: list[str]
) -> None:
    for base in (memory, bucket):
        found = listed([f"{base}/{pattern}" for pattern in patterns])
        assert [entry.name for entry in found] == expected, base
        for entry in found:
            assert entry.path.startswith(base + "/")
            with fsspec.open(entry.path) as file:
                assert len(file.read()) == entry.size


def test_entry_has_the_files_size_and_change_time(
    folder: Path, bucket: str, store: ObjectStore
) -> None:
    path = folder / "run" / "rank2.pickle"
    for pattern in (str(path), f"{folder}/run/rank2*"):
        (entry,) = listed([pattern])
        status = path.stat()
        when = f"{status.st_mtime_ns}/{status.st_ctime_ns}"
        assert entry == Listed("rank2.pickle", str(path), 16, when)
    os.utime(path, ns=(1, 2))
    changed = listed([str(path)])[0].changed
    assert changed.startswith("2/")
    path.write_bytes(path.read_bytes())  # possibly other bytes with the same time
    os.utime(path, ns=(1, 2))
    assert listed([str(path)])[0].changed != changed

    for pattern in (f"{bucket}/run/rank2.pickle", f"{bucket}/run/rank2*"):
        (entry,) = listed([pattern])
        assert (entry.path, entry.size) == (f"{bucket}/run/rank2.pickle", 16)
        assert len(entry.changed) == 32  # MD5, without quotes
    before = entry.changed
    store.put("there/run/rank2.pickle", b"something else")
    for pattern in (f"{bucket}/run/rank2.pickle", f"{bucket}/run/rank2*", f"{bucket}/run"):
        found = {entry.name: entry for entry in listed([pattern])}["rank2.pickle"]
        assert (found.size, found.changed == before) == (14, False)


def test_files_given_by_path_keep_their_full_names(folder: Path, memory: str) -> None:
    path = str(folder / "run" / "rank2.pickle")
    assert names(path, f"{memory}/run/rank2.pickle") == [path, f"{memory}/run/rank2.pickle"]


def test_a_thousand_files_take_few_requests(store: ObjectStore, proxy: Proxy) -> None:
    system = store.system()
    keys = [f"{store.bucket}/many/node{n // 8}/rank{n}.pickle" for n in range(1000)]
    system.pipe(dict.fromkeys(keys, b"x"))
    for patterns in (
        [f"s3://{store.bucket}/many"],
        [f"s3://{store.bucket}/many/**/*.pickle"],
        [f"s3://{store.bucket}/many/node*/rank*.pickle"],
    ):
        proxy.seen.clear()
        assert [entry.name.rpartition("/")[2] for entry in listed(patterns)][999] == (
            "rank999.pickle"
        )
        assert len(proxy.seen) <= 5
    proxy.seen.clear()
    assert len(names(*(f"s3://{key}" for key in keys[:8]))) == 8  # one by one, from one folder
    assert len(proxy.seen) <= 2
    system.rm(f"{store.bucket}/many", recursive=True)


def test_only_the_prefix_is_requested(bucket: str, proxy: Proxy) -> None:
    assert names(f"{bucket}/run/dee*/**/*.zst") == ["rank0.pkl.zst"]
    assert any("dee" in path for _, path, _ in proxy.seen)


def test_busy_store_is_retried(bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(ranges, "FIRST_WAIT_S", 0.01)
    proxy.faults = Faults(refused=3, refused_heads=2)
    assert names(f"{bucket}/run") == SNAPSHOTS
    assert proxy.faults.refused == proxy.faults.refused_heads == 0


def test_listing_may_take_longer_than_a_read(
    bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "STALL_S", 0.2)
    proxy.faults.before = lambda *_: time.sleep(0.3)
    assert names(f"{bucket}/run") == SNAPSHOTS


def test_links_to_folders_and_missing_files_are_left_out(folder: Path) -> None:
    os.symlink(folder / "run", folder / "run" / "deep" / "above")
    os.symlink(folder / "nothing", folder / "run" / "rank5.pickle")
    os.mkfifo(folder / "run" / "rank6.pickle")
    assert names(folder / "run") == SNAPSHOTS
    odd = folder / "run" / "rank[7].pickle"
    odd.write_bytes(b"1")
    assert names(odd) == ["rank[7].pickle"]  # a file with exactly this name


@pytest.mark.parametrize("pattern", ["run", "ru*", "run/**", "run/**/rank*"])
def test_unlistable_folder_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    refuse_folder(monkeypatch, "deep")
    told: list[Unlisted] = []
    found = listed([str(folder / pattern)], told.append)
    assert [one.name for one in found] == SNAPSHOTS[1:]
    assert told == [Unlisted(str(folder / "run" / "deep"), "permission denied")]
    assert told[0].words == ("the folder cannot be listed: permission denied; skipped")
    with pytest.raises(SnapshotError, match=r": permission denied \(.*/run/deep\)$"):
        listed([str(folder / pattern)])


def test_unlistable_folder_behind_a_link_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "far").mkdir()
    os.symlink(folder / "far", folder / "run" / "link")
    refuse_folder(monkeypatch, "link")
    told: list[Unlisted] = []
    assert len(listed([str(folder / "run")], told.append)) == 3
    assert [one.folder for one in told] == [str(folder / "run" / "link")]


def test_only_an_unlistable_folder_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "only" / "deep").mkdir(parents=True)
    refuse_folder(monkeypatch, "deep")
    with pytest.raises(SnapshotError, match=r"only: permission denied \(.*/only/deep\)$"):
        listed([str(folder / "only")], lambda _: None)
    monkeypatch.undo()
    refuse_folder(monkeypatch, "only")
    with pytest.raises(SnapshotError, match=r"only: permission denied$"):
        listed([str(folder / "only")], lambda _: None)


def test_entries_of_a_folder_without_access_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder can be listed but not entered (`chmod -x`)."""
    stat = os.stat

    def refuse(path: Any, **more: Any) -> os.stat_result:
        if os.path.dirname(os.fspath(path)).endswith("er"):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", refuse)
    told: list[Unlisted] = []
    assert len(listed([str(folder / "run")], told.append)) == 2
    assert [one.folder for one in told] == [str(folder / "run" / "deep" / "er")]


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("run/none.pickle", "no such file or folder"),
        ("none", "no such file or folder"),
        ("run/x*.pickle", "no files match"),
        ("none/*.pickle", ("no files match", "no such file or folder")),
        ("empty", "no snapshot in this folder: no name ends in .pkl, .pickle or .json"),
    ],
)
def test_pattern_without_files_is_an_error(
    folder: Path, memory: str, bucket: str, store: ObjectStore, pattern: str, words: Any
) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").touch()
    fsspec.filesystem("memory").touch("/there/empty/notes.txt")
    store.put("there/empty/notes.txt", b"1")
    for base in (str(folder), memory, bucket):
        with pytest.raises(UsageError) as error:
            listed([f"{base}/{pattern}"])
        expected = (words,) if isinstance(words, str) else words
        assert str(error.value) in [f"{base}/{pattern}: {said}" for said in expected]


def test_store_that_cannot_list_is_an_error(
    proxy: Proxy, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pattern in ("s3://no-such-bucket-here/run", "s3://no-such-bucket-here/run/**/*.pickle"):
        with pytest.raises(UsageError, match=r"no such (bucket|file or folder)$"):
            listed([pattern])
    proxy.faults = Faults(refused=99, refused_heads=99, status=403)
    for pattern in (f"s3://{store.bucket}/run", f"s3://{store.bucket}/run/**"):
        with pytest.raises(SnapshotError, match=r"^s3://.*: the server says 403") as error:
            listed([pattern])
        assert str(error.value).startswith(f"{pattern}: ")
        assert "\n" not in str(error.value)
        assert "hidden" not in str(error.value)


def test_missing_credentials_are_reported(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": proxy.url})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(
        SnapshotError, match=r": no credentials for this store: log in, or set them"
    ):
        listed(["s3://bucket/run/*.pickle"])


def test_unreachable_server_is_an_error(
    monkeypatch: pytest.MonkeyPatch, store: ObjectStore
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with proxy_of((store.host, store.port)) as gone:
        options = store.options(gone.url)
    monkeypatch.setitem(fsspec.config.conf, "s3", options)
    with pytest.raises(SnapshotError, match=r"(?i)could not connect"):
        listed([f"s3://{store.bucket}/run"])


def test_missing_store_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # `fsspec.registry` is a view; its mapping is in the module of that name.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(MissingExtraError, match=r"\(the extra 's3'\)"):
        listed(["s3://bucket/run"])


def test_web_addresses_are_listed_but_not_searched(store: ObjectStore, proxy: Proxy) -> None:
    store.put("web/rank1.pickle", b"one", ACL="public-read")
    store.put("web/rank0.pickle", b"two!", ACL="public-read")
    base = f"{proxy.url}/{store.bucket}/web"
    (entry,) = listed([f"{base}/rank1.pickle?signature=secret"])
    assert (entry.name, entry.size, len(entry.changed)) == ("rank1.pickle", 3, 32)
    assert entry.path.endswith("?signature=secret")  # what to open
    several = [f"{base}/rank{n}.pickle{query}" for n, query in ((1, ""), (0, ""), (1, "?a=1"))]
    found = listed(several)
    assert [(entry.name, entry.size) for entry in found] == [
        ("rank0.pickle#1", 4),
        ("rank1.pickle#0", 3),
        ("rank1.pickle#2", 3),
    ]
    with pytest.raises(UsageError, match=r"rank\*: web servers don't list their files; pass"):
        listed([f"{base}/rank*?key=secret"])
    store.system().chmod(store.bucket, acl="public-read")  # 403 if missing
    with pytest.raises(UsageError, match=r"rank7\.pickle: no such file"):
        listed([f"{base}/rank7.pickle?key=secret"])
