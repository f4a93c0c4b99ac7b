"""List the files that paths, folders, patterns and object-store URLs refer to."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from memreplay.errors import SnapshotError, UsageError
from memreplay.io.choosing import NO_SNAPSHOT, no_snapshot_text, snapshots_among
from memreplay.io.names import natural, snapshot_names
from memreplay.io.urls import as_os_errors, is_url, system_of, without_secrets
from memreplay.io.walking import (
    DENIED,
    Skipped,
    Unlisted,
    files_below,
    is_file_at,
    reason_of,
    unlistable_folders,
)

_MAGIC = re.compile(r"[*?\[]")
# If at least this number of URLs are in the same folder, list the folder instead of looking up each
# file.
MANY = 3
LONGEST_S = 600.0  # timeout for a listing, which can take many requests
AT_ONCE = 16  # maximum number of concurrent requests for single files

T = TypeVar("T")


class Listed(Struct, frozen=True):
    """A file that was found.

    Attributes
    ----------
    name : str
        Unique name for messages and tables: the path (with `/`) below the folder that contains all
        files in the list, or just the file name if there's only one.
    path : str
        Path or URL to open. A URL may contain secrets.
    size : int
        Bytes; -1 if unknown.
    changed : str
        Version of the content: the store's ETag or modification time; for local files, the times of
        the last modification and status change. Empty if unknown.
    """

    name: str
    path: str
    size: int
    changed: str


def listed(patterns: Sequence[str], skipped: Skipped | None = None) -> list[Listed]:
    """Return the files that match any of the patterns, without duplicates, in natural order of
    their names.

    A pattern is a file, a folder or a glob pattern with `*`, `?`, `[…]` or `**`, either local or a
    URL for fsspec. For a folder, the result is the snapshots in it and its subfolders, recognized
    by name, without hidden files; if there are none, local HTML pages that contain a snapshot. If a
    glob matches files named like snapshots, the result is these; otherwise, all matching files. If
    only folders match, the result is the snapshots in these folders. Object stores are listed with
    one request per thousand files.

    `skipped` is called for each local subfolder that can't be listed. Without `skipped`, or if
    nothing else is found, such a folder is an error.

    Raises
    ------
    UsageError
        Nothing matches, or the file, folder or bucket doesn't exist.
    SnapshotError
        A folder or a store can't be listed.
    MissingExtraError
        fsspec, or the package it needs for this kind of URL, is not installed.
    """
    single = _files_named_in_bulk(patterns)
    found: dict[str, Listed] = {}
    for pattern in patterns:
        if pattern in single:
            entries: Iterable[Listed] = (single[pattern],)
        else:
            entries = _remote(pattern) if is_url(pattern) else _local(pattern, skipped)
        for entry in entries:
            found.setdefault(_identity(entry.path), entry)
    return _named(list(found.values()))


def _identity(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)


def _named(entries: list[Listed]) -> list[Listed]:
    shown = [without_secrets(entry.path) for entry in entries]
    if len(set(shown)) < len(shown):  # these URLs differ only in their secrets
        shown = [f"{name}#{number}" for number, name in enumerate(shown)]
    parts = [_parts(name) for name in shown]
    common = 0
    for part in zip(*(part[:-1] for part in parts), strict=False):
        if len(set(part)) > 1:
            break
        common += 1
    named = [
        Listed("/".join(part[common:]), entry.path, entry.size, entry.changed)
        for part, entry in zip(parts, entries, strict=True)
    ]
    return sorted(named, key=lambda entry: natural(entry.name))


def with_unique_names(paths: Sequence[str]) -> list[Listed]:
    """Return an entry with a unique name for each path, in order.

    Files aren't accessed.
    """
    entries = _named([Listed("", path, -1, "") for path in dict.fromkeys(paths)])
    of = {entry.path: entry for entry in entries}
    return [of[path] for path in paths]


def _parts(name: str) -> list[str]:
    if is_url(name):
        return name.split("/")
    return os.path.abspath(name).split(os.sep)


# ---- local files ---------------------------------------------------------------------------------


def _local(pattern: str, skipped: Skipped | None) -> list[Listed]:
    unlisted: list[Unlisted] = []
    try:
        found = _found_here(pattern, unlisted.append)
    except FileNotFoundError as error:
        if error.filename == pattern:
            raise UsageError(f"{pattern}: no such file or folder") from None
        raise SnapshotError(
            f"{pattern}: {error.filename} was deleted while it was being listed"
        ) from None
    except OSError as error:
        where = "" if error.filename == pattern else f" ({error.filename})"
        raise SnapshotError(f"{pattern}: {reason_of(error)}{where}") from error
    if unlisted and (skipped is None or not found):
        one = unlisted[0]
        raise SnapshotError(f"{pattern}: {one.reason} ({one.folder})")
    if skipped is not None:
        for one in unlisted:
            skipped(one)
    if not found:
        raise UsageError(
            f"{pattern}: {no_snapshot_text(pattern)}"
            if os.path.isdir(pattern)
            else f"{pattern}: no files match"
        )
    return found


def _found_here(pattern: str, skipped: Skipped) -> list[Listed]:
    if os.path.isdir(pattern):
        return _in_folder(pattern, skipped)
    if os.path.lexists(pattern) or not _MAGIC.search(pattern):
        return [_local_file(pattern)]
    matched = glob.glob(pattern, recursive=True)
    files = [path for path in matched if is_file_at(path)]
    folders = [] if files and "**" not in pattern else list(filter(os.path.isdir, matched))
    shut = unlistable_folders(pattern, folders)
    for folder in shut:
        skipped(Unlisted(folder, DENIED))
    if files:
        return [_local_file(path) for path in snapshot_names(files) or files]
    return [one for path in folders if path not in shut for one in _in_folder(path, skipped)]


def _in_folder(folder: str, skipped: Skipped) -> list[Listed]:
    names = snapshots_among(files_below(folder, skipped), folder)
    return [_local_file(os.path.join(folder, name)) for name in names]


def _no_snapshot(folder: str) -> str:
    return f"{folder}: {NO_SNAPSHOT}"


def _local_file(path: str) -> Listed:
    status = os.stat(path)
    size = status.st_size if stat.S_ISREG(status.st_mode) else -1
    # The change time also differs if a file was replaced by one with the same modification time.
    return Listed("", path, size, f"{status.st_mtime_ns}/{status.st_ctime_ns}")


# ---- stores --------------------------------------------------------------------------------------


def _remote(pattern: str) -> list[Listed]:
    def found() -> list[Listed]:
        system, path = system_of(pattern)
        shown = without_secrets(pattern)
        # In a web address, `?` starts a query, and web servers don't list files.
        is_web = _is_web(system)
        if not is_web and _MAGIC.search(path):
            infos = _matching(system, path)
            if not infos:
                raise UsageError(f"{shown}: no files match")
            return _of(system, pattern, infos)
        if is_web and "*" in path:
            raise UsageError(f"{shown}: web servers don't list their files; pass each URL")
        info = _info_of(system, path)
        if info.get("type") != "directory":
            return [_entry(pattern, info)]
        infos = _chosen(_below(system, path), path)
        if not infos:
            raise UsageError(_no_snapshot(shown))
        return _of(system, pattern, infos)

    return _with_store_errors(pattern, found)


def _with_store_errors(pattern: str, ask: Callable[[], T]) -> T:
    """Call `ask`, and convert a store's errors to errors that name the pattern without secrets."""
    shown = without_secrets(pattern)
    try:
        with as_os_errors():
            return ask()
    except FileNotFoundError as error:
        what = "bucket" if "bucket" in str(error).lower() else "file or folder"
        raise UsageError(f"{shown}: no such {what}") from None
    except IsADirectoryError:
        raise UsageError(_no_snapshot(shown)) from None
    except OSError as error:
        raise SnapshotError(f"{shown}: {error.strerror or error}") from error


def _is_web(system: Any) -> bool:
    return any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__)


def _info_of(system: Any, path: str) -> dict[str, Any]:
    """Return the store's entry for a path, bypassing caches."""
    system.invalidate_cache(path)
    info: dict[str, Any] = _call_with_retries(system, "info", path)
    return info


def _call_with_retries(system: Any, method: str, *args: Any, **options: Any) -> Any:
    """Call a file system's method, and retry if its store is busy."""
    from fsspec.asyn import AsyncFileSystem

    if not issubclass(type(system), AsyncFileSystem):
        return getattr(system, method)(*args, **options)
    from memreplay.io.ranges import with_retries

    return _run(
        system, with_retries(lambda: getattr(system, f"_{method}")(*args, **options), LONGEST_S)
    )


def _run(system: Any, work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run_coroutine_threadsafe(work, system.loop).result()


def _matching(system: Any, pattern: str) -> list[dict[str, Any]]:
    """Return the files that match a pattern, using as few requests as possible."""
    from fsspec.utils import glob_translate

    before = pattern[: _MAGIC.search(pattern).start()]  # type: ignore[union-attr]
    root, _, prefix = before.rpartition("/")
    deep = "/" in pattern[len(root) + 1 :] or "**" in pattern
    infos = _below(system, root, prefix, deep=deep)
    # as in a shell, hidden files match only if the pattern has a dot there
    if "/." not in pattern[len(root) :]:
        infos = _not_hidden(infos, root)
    matches = re.compile(glob_translate(pattern)).match
    found = [info for info in infos if matches(info["name"])]
    if found:
        names = set(snapshot_names(info["name"] for info in found))
        return [info for info in found if info["name"] in names] if names else found
    # The pattern may also match folders, so compare the pattern with each folder above a file.
    if not deep:
        infos = _below(system, root, prefix)
    inside = [info for info in infos if any(map(matches, _folders_of(info["name"])))]
    return _chosen(inside, root)


def _folders_of(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def _below(system: Any, root: str, prefix: str = "", *, deep: bool = True) -> list[dict[str, Any]]:
    """Return the files in a folder (and below it, if `deep`) whose path inside it starts with
    `prefix`.
    """
    import inspect

    system.invalidate_cache(root)
    if not deep:
        infos = _call_with_retries(system, "ls", root, detail=True)
    else:
        method = getattr(type(system), "_find", type(system).find)
        can = prefix and "prefix" in inspect.signature(method).parameters
        options = {"prefix": prefix} if can else {}
        infos = _call_with_retries(system, "find", root, detail=True, **options).values()
    return [info for info in infos if info["type"] == "file" and not info["name"].endswith("/")]


def _chosen(infos: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    """Return the files below a folder that are snapshots, without hidden ones."""
    shown = _not_hidden(infos, root)
    names = set(snapshot_names(info["name"] for info in shown))
    return [info for info in shown if info["name"] in names]


def _not_hidden(infos: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    start = len(root.rstrip("/"))
    return [info for info in infos if "/." not in info["name"][start:]]


def _of(system: Any, pattern: str, infos: list[dict[str, Any]]) -> list[Listed]:
    # Keep the pattern's scheme, host and chain of file systems in the URLs.
    path, whole = system_of(pattern)[1].rstrip("/"), pattern.rstrip("/")
    if path and whole.endswith(path):
        front = whole[: -len(path)]
        return [_entry(front + info["name"], info) for info in infos]
    return [_entry(str(system.unstrip_protocol(info["name"])), info) for info in infos]


def _entry(path: str, info: dict[str, Any]) -> Listed:
    from memreplay.io.stores import tag_of

    size = info.get("size")
    return Listed("", path, size if isinstance(size, int) else -1, tag_of(info))


def _files_named_in_bulk(patterns: Sequence[str]) -> dict[str, Listed]:
    """If many of the files are in the same folder, look them up in a listing of that folder."""
    folders: dict[str, list[str]] = {}
    for pattern in patterns:
        if is_url(pattern) and not _MAGIC.search(pattern) and "::" not in pattern:
            folders.setdefault(pattern.rpartition("/")[0], []).append(pattern)
    found: dict[str, Listed] = {}
    for folder, urls in folders.items():
        if len(urls) >= MANY:
            found |= _with_store_errors(folder, partial(_in_bulk, folder, urls))
    return found


def _in_bulk(folder: str, urls: list[str]) -> dict[str, Listed]:
    system, root = system_of(folder + "/")
    if _is_web(system):
        return _of_web(system, urls)
    paths = {system_of(url)[1]: url for url in urls}
    try:
        infos = _below(system, root.rstrip("/"), deep=False)
    except OSError:  # reading a file may be permitted even if listing isn't
        return {}
    return {
        paths[info["name"]]: _entry(paths[info["name"]], info)
        for info in infos
        if info["name"] in paths
    }


def _of_web(system: Any, urls: list[str]) -> dict[str, Listed]:
    """Look up files on a web server, several at once."""
    import asyncio

    from memreplay.io.ranges import with_retries

    async def ask() -> list[dict[str, Any]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> dict[str, Any]:
            async with room:
                info: dict[str, Any] = await with_retries(lambda: system._info(url))
                return info

        return await asyncio.gather(*map(one, urls))

    infos = _run(system, ask())
    return {url: _entry(url, info) for url, info in zip(urls, infos, strict=True)}
