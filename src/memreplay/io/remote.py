"""Open a URL as a sequential stream of bytes."""

from __future__ import annotations

import os
from typing import Any

from memreplay.io.raw import Raw
from memreplay.io.urls import as_os_errors, system_of, without_secrets

# Bytes per request: enough to hide latency without taking too much memory.
BLOCK = 8 << 20


class Remote(Raw):
    # An fsspec file whose exceptions, which come from many libraries, are converted to OSError.

    def readinto(self, buffer: Any) -> int:
        with as_os_errors():
            return super().readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with as_os_errors():
            return super().seek(offset, whence)


def open_url(url: str) -> Raw:
    """Open a URL for reading.

    The caller must close it.

    Raises OSError with a message of one line that contains no secrets, or MissingExtraError if a
    package is missing.
    """
    with as_os_errors():
        system, path = system_of(url)
        file = _by_ranges(system, path) or _forward(system, path)
    size = getattr(file, "size", None)
    return Remote(file, without_secrets(url), size if isinstance(size, int) else None)


def _by_ranges(system: Any, path: str) -> Any:
    """Return a reader that uses concurrent range requests; None if the store doesn't support
    ranges.
    """
    from fsspec.asyn import AsyncFileSystem

    # Check the type, because caching file systems imitate the instance that they wrap.
    if not issubclass(type(system), AsyncFileSystem):
        return None
    import asyncio

    from memreplay.io.ranges import RangeReader, with_retries
    from memreplay.io.stores import remote_file

    asked = with_retries(lambda: remote_file(system, path))
    file = asyncio.run_coroutine_threadsafe(asked, system.loop).result()
    return None if file is None else RangeReader(file, system.loop)


def _forward(system: Any, path: str) -> Any:
    """Return a reader that makes sequential requests (or a single one) without retries."""
    if any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__):
        from memreplay.io.web_stream import WebStream

        return WebStream(system, path)
    # Holds only one block at a time.
    return system.open(path, "rb", block_size=BLOCK, cache_type="readahead")
