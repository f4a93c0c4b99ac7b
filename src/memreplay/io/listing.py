"""Lists the files that paths, folders, patterns and URLs of object stores stand for."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from memreplay.errors import SnapshotError, UsageError
from memreplay.io.choosing import NO_SNAPSHOT, no_snapshot_words, snapshots_among
from memreplay.io.names import natural, snapshot_names
from memreplay.io.urls import as_os_errors, is_url, system_of, without_secrets
from memreplay.io.walking import DENIED, Skipped, Unlisted, files_below, reason_of, shut_folders

_MAGIC = re.compile(r"[*?\[]")
# Files named one by one from which on their folder is listed instead of asking for each.
MANY = 3
LONGEST_S = 600.0  # of one listing, which may be many requests
AT_ONCE = 16  # requests, where each file has to be asked for

T = TypeVar("T")


class Listed(Struct, frozen=True):
    """A file that was found.

    Parameters
    ----------
    name : str
        What to call it: its path from the folder on that all of a list have in common, with `/`; of
        one file alone its own name. Two of a list have different ones.
    path : str
        What to open: a path, or a URL, which may have secrets in it.
    size : int
        Bytes; -1 where the store does not say.
    changed : str
        What is another one once the file is: its ETag where the store has one, else when it was
        changed (of a file of this machine also when it was put there); empty where the store says
        neither.
    """

    name: str
    path: str
    size: int
    changed: str


def listed(patterns: Sequence[str], skipped: Skipped | None = None) -> list[Listed]:
    """The files of all patterns, in natural order of their names, each there once.

    A pattern is a file; a folder, of which the snapshots are taken (by their names, in its
    subfolders too, hidden ones left out; where there is nothing else, pages of this machine with a
    snapshot in them); or has `*`, `?`, `[…]`, or `**` for any folders. Of what it matches the
    snapshots are taken, or all where no name is a snapshot's; where it matches nothing but folders,
    their snapshots. Each is local, or a URL of fsspec. Of an object store a thousand files are a
    request or two, not a thousand.

    `skipped` is told of the folders of this machine, below those that are named, which cannot be
    listed; without it one is an error, and so it is if nothing else is found.

    Raises
    ------
    UsageError
        Nothing matches, or there is no such file, folder or bucket; it says which.
    SnapshotError
        A folder or a store cannot be listed.
    MissingExtraError
        It is a URL, and fsspec or what fsspec needs for it is not installed.
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
    if len(set(shown)) < len(shown):  # told apart by what is not shown
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


def called(paths: Sequence[str]) -> list[Listed]:
    """Files by their paths, in that order, each with the name that it has among the others; nothing
    is asked of where they lie."""
    entries = _named([Listed("", path, -1, "") for path in dict.fromkeys(paths)])
    of = {entry.path: entry for entry in entries}
    return [of[path] for path in paths]


def _parts(name: str) -> list[str]:
    if is_url(name):
        return name.split("/")
    return os.path.abspath(name).split(os.sep)


# ---- this machine --------------------------------------------------------------------------------


def _local(pattern: str, skipped: Skipped | None) -> list[Listed]:
    unlisted: list[Unlisted] = []
    try:
        found = _found_here(pattern, unlisted.append)
    except FileNotFoundError as error:
        if error.filename == pattern:
            raise UsageError(f"{pattern}: there is no such file or folder") from None
        raise SnapshotError(f"{pattern}: {error.filename} went while it was listed") from None
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
            f"{pattern}: {no_snapshot_words(pattern)}"
            if os.path.isdir(pattern)
            else f"{pattern}: nothing matches"
        )
    return found


def _found_here(pattern: str, skipped: Skipped) -> list[Listed]:
    if os.path.isdir(pattern):
        return _in_folder(pattern, skipped)
    if os.path.lexists(pattern) or not _MAGIC.search(pattern):
        return [_local_file(pattern)]
    matched = glob.glob(pattern, recursive=True)
    files = [path for path in matched if os.path.isfile(path)]
    folders = [] if files and "**" not in pattern else list(filter(os.path.isdir, matched))
    shut = shut_folders(pattern, folders)
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
    # The second is another one too where a file was replaced by one that keeps its time.
    return Listed("", path, size, f"{status.st_mtime_ns}/{status.st_ctime_ns}")


# ---- stores --------------------------------------------------------------------------------------


def _remote(pattern: str) -> list[Listed]:
    def found() -> list[Listed]:
        system, path = system_of(pattern)
        shown = without_secrets(pattern)
        # In a web address a `?` begins a query, and no server lists its files.
        is_web = _is_web(system)
        if not is_web and _MAGIC.search(path):
            infos = _matching(system, path)
            if not infos:
                raise UsageError(f"{shown}: nothing matches")
            return _of(system, pattern, infos)
        if is_web and "*" in path:
            raise UsageError(f"{shown}: a web server does not list its files; name them")
        info = _info_of(system, path)
        if info.get("type") != "directory":
            return [_entry(pattern, info)]
        infos = _chosen(_below(system, path), path)
        if not infos:
            raise UsageError(_no_snapshot(shown))
        return _of(system, pattern, infos)

    return _asked(pattern, found)


def _asked(pattern: str, ask: Callable[[], T]) -> T:
    """What a store answers; its errors, with the pattern as it may be shown."""
    shown = without_secrets(pattern)
    try:
        with as_os_errors():
            return ask()
    except FileNotFoundError as error:
        what = "bucket" if "bucket" in str(error).lower() else "file or folder"
        raise UsageError(f"{shown}: there is no such {what}") from None
    except IsADirectoryError:
        raise UsageError(_no_snapshot(shown)) from None
    except OSError as error:
        raise SnapshotError(f"{shown}: {error.strerror or error}") from error


def _is_web(system: Any) -> bool:
    return any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__)


def _info_of(system: Any, path: str) -> dict[str, Any]:
    """What a store says of one path; it is asked again where it may say it later."""
    system.invalidate_cache(path)
    info: dict[str, Any] = _persisted(system, "info", path)
    return info


def _persisted(system: Any, method: str, *args: Any, **options: Any) -> Any:
    """The result of a method of a file system, tried again where its store is busy."""
    from fsspec.asyn import AsyncFileSystem

    if not issubclass(type(system), AsyncFileSystem):
        return getattr(system, method)(*args, **options)
    from memreplay.io.ranges import persisted

    return _run(
        system, persisted(lambda: getattr(system, f"_{method}")(*args, **options), LONGEST_S)
    )


def _run(system: Any, work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run_coroutine_threadsafe(work, system.loop).result()


def _matching(system: Any, pattern: str) -> list[dict[str, Any]]:
    """The files that a pattern matches, by as few listings as the store needs."""
    from fsspec.utils import glob_translate

    before = pattern[: _MAGIC.search(pattern).start()]  # type: ignore[union-attr]
    root, _, prefix = before.rpartition("/")
    deep = "/" in pattern[len(root) + 1 :] or "**" in pattern
    infos = _below(system, root, prefix, deep=deep)
    if "/." not in pattern[len(root) :]:  # as here: only a dot matches one in front
        infos = _not_hidden(infos, root)
    matches = re.compile(glob_translate(pattern)).match
    found = [info for info in infos if matches(info["name"])]
    if found:
        names = set(snapshot_names(info["name"] for info in found))
        return [info for info in found if info["name"] in names] if names else found
    # Nothing but folders: a pattern for each folder above a file.
    if not deep:
        infos = _below(system, root, prefix)
    inside = [info for info in infos if any(map(matches, _folders_of(info["name"])))]
    return _chosen(inside, root)


def _folders_of(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def _below(system: Any, root: str, prefix: str = "", *, deep: bool = True) -> list[dict[str, Any]]:
    """All files below a folder (in it, if not `deep`) whose paths in it begin with `prefix`."""
    import inspect

    system.invalidate_cache(root)
    if not deep:
        infos = _persisted(system, "ls", root, detail=True)
    else:
        method = getattr(type(system), "_find", type(system).find)
        can = prefix and "prefix" in inspect.signature(method).parameters
        options = {"prefix": prefix} if can else {}
        infos = _persisted(system, "find", root, detail=True, **options).values()
    return [info for info in infos if info["type"] == "file" and not info["name"].endswith("/")]


def _chosen(infos: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    """Of what is below a folder what is a snapshot, hidden ones left out."""
    shown = _not_hidden(infos, root)
    names = set(snapshot_names(info["name"] for info in shown))
    return [info for info in shown if info["name"] in names]


def _not_hidden(infos: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    start = len(root.rstrip("/"))
    return [info for info in infos if "/." not in info["name"][start:]]


def _of(system: Any, pattern: str, infos: list[dict[str, Any]]) -> list[Listed]:
    return [_entry(_url_like(pattern, system, info["name"]), info) for info in infos]


def _url_like(pattern: str, system: Any, name: str) -> str:
    """The URL of a file, with the scheme, the host and the chain that the pattern has."""
    path = str(system._strip_protocol(pattern)).rstrip("/")
    whole = pattern.rstrip("/")
    if path and whole.endswith(path):
        return whole[: -len(path)] + name
    return str(system.unstrip_protocol(name))


def _entry(path: str, info: dict[str, Any]) -> Listed:
    from memreplay.io.stores import tag_of

    size = info.get("size")
    return Listed("", path, size if isinstance(size, int) else -1, tag_of(info))


def _files_named_in_bulk(patterns: Sequence[str]) -> dict[str, Listed]:
    """Those of many URLs of single files that the listing of their folder has."""
    folders: dict[str, list[str]] = {}
    for pattern in patterns:
        if is_url(pattern) and not _MAGIC.search(pattern) and "::" not in pattern:
            folders.setdefault(pattern.rpartition("/")[0], []).append(pattern)
    found: dict[str, Listed] = {}
    for folder, urls in folders.items():
        if len(urls) >= MANY:
            found |= _asked(folder, lambda folder=folder, urls=urls: _in_bulk(folder, urls))  # type: ignore[misc]
    return found


def _in_bulk(folder: str, urls: list[str]) -> dict[str, Listed]:
    system, root = system_of(folder + "/")
    if _is_web(system):
        return _of_web(system, urls)
    paths = {system._strip_protocol(url): url for url in urls}
    try:
        infos = _below(system, root.rstrip("/"), deep=False)
    except OSError:  # who may read a file may not be one who may list the others
        return {}
    return {
        paths[info["name"]]: _entry(paths[info["name"]], info)
        for info in infos
        if info["name"] in paths
    }


def _of_web(system: Any, urls: list[str]) -> dict[str, Listed]:
    """What a web server says of each file, several asked for at once."""
    import asyncio

    from memreplay.io.ranges import persisted

    async def ask() -> list[dict[str, Any]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> dict[str, Any]:
            async with room:
                info: dict[str, Any] = await persisted(lambda: system._info(url))
                return info

        return await asyncio.gather(*map(one, urls))

    infos = _run(system, ask())
    return {url: _entry(url, info) for url, info in zip(urls, infos, strict=True)}
