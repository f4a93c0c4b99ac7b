"""Decide which files may be read (regular files below the given folders), and open them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import BinaryIO

from msgspec import Struct

from memreplay.errors import UsageError

# Kernel file systems, in which reading may have side effects or never end.
_NEVER = ("/proc", "/sys", "/dev")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_LONGEST = 4096


class Identity(Struct, frozen=True):
    """A file's identity. A file that is replaced or rewritten gets another identity."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class AllowedFile(Struct, frozen=True):
    """A readable file: its real path, its name, and its identity when it was checked."""

    root: str
    path: str
    name: str
    identity: Identity


class Allowed:
    """The allowed folders. Raises UsageError for a path that isn't a folder."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self.roots: tuple[str, ...] = tuple(map(os.path.realpath, self.folders))
        for folder, root in zip(self.folders, self.roots, strict=True):
            if not os.path.isdir(root):
                raise UsageError(f"{folder}: no such folder")

    def file(self, text: str) -> AllowedFile:
        """Return the file with this listed name or full path. Raises UsageError if it doesn't exist
        or isn't allowed.
        """
        if not text or len(text) > _LONGEST or "\0" in text:
            raise UsageError("give a file as listed by the tool files")
        if "://" in text:
            raise UsageError(f"{text}: URLs can't be read: {self._only()}")
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
        raise UsageError(f"{text}: no such file; the tool files lists them")

    def name_of(self, root: str, path: str) -> str:
        """Return the file's name relative to its folder. With several folders, the name includes
        the folder's path.
        """
        name = os.path.relpath(path, root)
        return name if len(self.roots) == 1 else os.path.join(root, name)

    def may_read(self, path: str) -> bool:
        """Return whether a path, with links resolved, is a regular file in one of the folders."""
        real = _real(path)
        if real is None or self._root_of(real) is None:
            return False
        try:
            return stat.S_ISREG(os.stat(real).st_mode)
        except OSError:
            return False

    def open(self, file: AllowedFile) -> BinaryIO:
        """Open a file from its folder without following links.

        If part of the path is replaced after the check, that's an error. Raises OSError and
        UsageError.
        """
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
                raise UsageError(f"{file.name}: it was just replaced; try again")
        except BaseException:
            os.close(number)
            raise
        return open(file.name, "rb", opener=lambda _name, _flags: number)

    def _check(self, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{name}: this is a directory; the tool files lists what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{name}: not allowed: it isn't a regular file")

    def _root_of(self, path: str) -> str | None:
        """Return the folder that contains a real path, or None."""
        if any(path == one or path.startswith(one + os.sep) for one in _NEVER):
            return None
        for root in self.roots:
            if path.startswith(root.rstrip(os.sep) + os.sep):
                return root
        return None

    def _only(self) -> str:
        return f"this server only reads files below {', '.join(self.roots)}"


def _real(path: str) -> str | None:
    """Resolve links; None if one can't be read."""
    try:
        return os.path.realpath(path)
    except OSError:
        return None


def _identity(path: str, found: os.stat_result) -> Identity:
    return Identity(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
