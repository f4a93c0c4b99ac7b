"""Says which files may be read: regular ones below the folders that were named; opens them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import BinaryIO

from msgspec import Struct

from memreplay.errors import UsageError

# Of the kernel, whatever the folders are: reading may have effects, or never end.
_NEVER = ("/proc", "/sys", "/dev")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_LONGEST = 4096


class Identity(Struct, frozen=True):
    """What a file is the same by: replaced or rewritten, it is another one."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class AllowedFile(Struct, frozen=True):
    """A file that may be read: its real path, what to call it, and what it was when looked at."""

    root: str
    path: str
    name: str
    identity: Identity


class Allowed:
    """The folders; raises UsageError for one that is none."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self.roots: tuple[str, ...] = tuple(map(os.path.realpath, self.folders))
        for folder, root in zip(self.folders, self.roots, strict=True):
            if not os.path.isdir(root):
                raise UsageError(f"{folder}: there is no such folder")

    def file(self, text: str) -> AllowedFile:
        """The file that somebody named, as `files` lists it or by its whole path. Raises UsageError
        for one that may not be read, or is not there."""
        if not text or len(text) > _LONGEST or "\0" in text:
            raise UsageError("name a file, as the tool files lists it")
        if "://" in text:
            raise UsageError(f"{text}: URLs are not read here: {self._only()}")
        inside: list[tuple[str, str]] = []
        for root in self.roots:
            path = _real(os.path.join(root, text))
            below = None if path is None else self._root_of(path)
            if path is not None and below is not None:
                inside.append((below, path))
        if not inside:
            raise UsageError(f"{text}: not allowed: {self._only()}")
        for root, path in inside:
            try:
                found = os.stat(path)
            except OSError:
                continue
            self._check(text, found)
            return AllowedFile(root, path, self.name_of(root, path), _identity(path, found))
        raise UsageError(f"{text}: there is no such file; the tool files lists them")

    def name_of(self, root: str, path: str) -> str:
        """What to call it: from its folder on; of several folders, with the folder's own path."""
        name = os.path.relpath(path, root)
        return name if len(self.roots) == 1 else os.path.join(root, name)

    def may_read(self, path: str) -> bool:
        """Whether a path, links followed, is a regular file in one of the folders."""
        real = _real(path)
        if real is None or self._root_of(real) is None:
            return False
        try:
            return stat.S_ISREG(os.stat(real).st_mode)
        except OSError:
            return False

    def open(self, file: AllowedFile) -> BinaryIO:
        """The file, opened from its folder on without following any link: whoever swaps a part of
        the path after it was looked at gets an error. Raises OSError and UsageError."""
        opener = os.open(file.root, os.O_RDONLY | _DIRECTORY | _CLOEXEC)
        try:
            *folders, last = os.path.relpath(file.path, file.root).split(os.sep)
            for folder in folders:
                flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC
                below = os.open(folder, flags, dir_fd=opener)
                os.close(opener)
                opener = below
            number = os.open(last, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _CLOEXEC, dir_fd=opener)
        finally:
            os.close(opener)
        try:
            found = os.fstat(number)
            self._check(file.name, found)
            if _identity(file.path, found) != file.identity:
                raise UsageError(f"{file.name}: it was replaced just now; ask again")
        except BaseException:
            os.close(number)
            raise
        return open(file.name, "rb", opener=lambda _name, _flags: number)

    def _check(self, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{name}: this is a directory; the tool files lists what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{name}: not allowed: it is no regular file")

    def _root_of(self, path: str) -> str | None:
        """The folder that a real path is below; None where it is in none of them."""
        if any(path == one or path.startswith(one + os.sep) for one in _NEVER):
            return None
        for root in self.roots:
            if path.startswith(root.rstrip(os.sep) + os.sep):
                return root
        return None

    def _only(self) -> str:
        return f"this server reads only files below {', '.join(self.roots)}"


def _real(path: str) -> str | None:
    """The path without links; None where a link cannot be read."""
    try:
        return os.path.realpath(path)
    except OSError:
        return None


def _identity(path: str, found: os.stat_result) -> Identity:
    return Identity(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
