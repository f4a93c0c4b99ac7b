"""Opens a URL as one forward stream of bytes, in the best way that its store has."""

from __future__ import annotations

import os
from typing import Any

from memreplay.io.raw import Raw
from memreplay.io.urls import as_os_errors, system_of, without_secrets

# What is asked of a remote file system at once: large enough for its latency, small in memory.
BLOCK = 8 << 20


class Remote(Raw):
    # A file of fsspec, whose errors are those of a hundred libraries.

    def readinto(self, buffer: Any) -> int:
        with as_os_errors():
            return super().readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with as_os_errors():
            return super().seek(offset, whence)


def open_url(url: str) -> Raw:
    """Opens a URL for reading; the caller closes it.

    Raises OSError, with one line and no secrets, where it cannot be opened, and MissingExtraError
    where a package is missing.
    """
    with as_os_errors():
        system, path = system_of(url)
        file = _by_ranges(system, path) or _forward(system, path)
    size = getattr(file, "size", None)
    return Remote(file, without_secrets(url), size if isinstance(size, int) else None)


def _by_ranges(system: Any, path: str) -> Any:
    """The file, read by several requests at once; None where the store gives no ranges."""
    from fsspec.asyn import AsyncFileSystem

    # The type's, since one that caches pretends to be what it caches.
    if not issubclass(type(system), AsyncFileSystem):
        return None
    import asyncio

    from memreplay.io.ranges import RangeReader, persisted
    from memreplay.io.stores import remote_file

    asked = persisted(lambda: remote_file(system, path))
    file = asyncio.run_coroutine_threadsafe(asked, system.loop).result()
    return None if file is None else RangeReader(file, system.loop)


def _forward(system: Any, path: str) -> Any:
    """The file, read by one request after the other, or by one alone: nothing is asked again."""
    if any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__):
        from memreplay.io.web_stream import WebStream

        return WebStream(system, path)
    # No more than a block is held, and the next one replaces it.
    return system.open(path, "rb", block_size=BLOCK, cache_type="readahead")
