"""Opens what a caller names (a path, bytes, a file, a URL) as one forward stream of bytes."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from memreplay.errors import MissingExtraError

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

# Two letters at least: `C://snap.pkl` is a drive. `::` chains, as in simplecache::s3://bucket/key.
_URL = r"([A-Za-z][A-Za-z0-9+.-]+)(::|://)"
# Where what stands before an `@` may be a password, and what follows a `?` a signature.
_SECRETIVE = r"(?<![A-Za-z0-9+.-])(https?|s?ftp|ssh|smb)://(?:[^/@]*@)?([^?#]*)(?:[?#].*)?"
# What is asked of a remote file system at once: large enough for its latency, small in memory.
BLOCK = 8 << 20


class Raw(io.RawIOBase):
    """The bytes of any binary source as they lie there.

    `name` is what to call it, `total` its size where known, `taken` how many bytes were handed out.
    `waits`: a read may take for ever, as of a pipe or a terminal. `read` gives all that was asked
    for unless the source ends, whatever the source does. Closing it closes the source only if
    `owned`.
    """

    def __init__(
        self, source: Any, name: str, total: int | None = None, *, owned: bool = True
    ) -> None:
        super().__init__()
        self.name = name
        self.total = total
        self.taken = 0
        self.waits = _may_wait(source)
        self._source = source
        self._fill = getattr(source, "readinto", None)
        self._owned = owned

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._fill is not None:
            n = self._fill(view)
        else:
            data = self._source.read(len(view))
            if isinstance(data, str):
                raise TypeError("the file is open as text; open it with mode 'rb'")
            n = None if data is None else len(data)
            if data:
                view[:n] = data
        if n is None:
            raise BlockingIOError("the source has no data yet and does not wait; let it block")
        self.taken += n
        return int(n)

    def read(self, size: int | None = -1) -> bytes:
        out = bytearray()
        while size is None or size < 0 or len(out) < size:
            piece = super().read(1 << 16 if size is None or size < 0 else size - len(out))
            if not piece:
                break
            out += piece
        return bytes(out)

    def seekable(self) -> bool:
        ask = getattr(self._source, "seekable", None)
        return bool(ask and ask())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._source.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._owned:
                self._source.close()


class _Memory:
    # Bytes that the caller has, as a file: a piece is copied when it is asked for, never the whole.
    # It is copied, since what is not `bytes` may change while it is parsed.

    def __init__(self, view: memoryview, at: int = 0) -> None:
        self._view = view
        self._at = at

    def readinto(self, buffer: memoryview) -> int:
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._view)}[whence]
        self._at = max(0, start + offset)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._view.release()


class _Remote(Raw):
    # A file of fsspec, whose errors are those of a hundred libraries.

    def readinto(self, buffer: Any) -> int:
        with _as_os_errors():
            return super().readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _as_os_errors():
            return super().seek(offset, whence)


def open_source(source: Source) -> Raw:
    """Opens `source` for reading; the caller closes it.

    Raises
    ------
    OSError
        The path or the URL can't be opened (a directory too).
    MissingExtraError
        It is a URL, and fsspec or what fsspec needs for it is not installed.
    TypeError
        It is none of these.
    """
    if isinstance(source, str) and is_url(source):
        return _open_url(source)
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        file = io.FileIO(name, "r")
        return Raw(file, name, _size_of(file))
    if hasattr(source, "read"):
        return Raw(source, str(getattr(source, "name", "<stream>")), owned=False)
    try:
        view = memoryview(source)
    except TypeError:
        kind = type(source).__name__
        raise TypeError(
            f"a snapshot is read from a path, a URL, bytes or a binary file, not from {kind}"
        ) from None
    # Bytes in several dimensions, or every second one, are copied: nobody has a snapshot so.
    flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return Raw(_Memory(flat), "<bytes>", flat.nbytes)


def is_url(name: str) -> bool:
    """Whether `name` is a URL, and not a local file that exists or a path on a drive."""
    return ":" in name and re.match(_URL, name) is not None and not os.path.lexists(name)


def _open_url(url: str) -> Raw:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(
            "a URL is read with fsspec; pip install 'memreplay[remote]' to read it"
        ) from None
    with _as_os_errors():
        try:
            system, path = url_to_fs(url)
        except ImportError as error:  # s3fs, gcsfs, …: one package for each kind of store
            scheme = url.partition(":")[0]
            raise MissingExtraError(
                f"besides 'memreplay[remote]', {scheme}:// needs a package of its own: {error}"
            ) from None
        # Forward only: no more than a block is held, and the next one replaces it.
        file = system.open(path, "rb", block_size=BLOCK, cache_type="readahead")
    size = getattr(file, "size", None)
    return _Remote(file, _without_secrets(url), size if isinstance(size, int) else None)


def _without_secrets(url: str) -> str:
    """`url` as a report may show it: no user, password or signature."""
    return re.sub(_SECRETIVE, r"\1://\2", url)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        # fsspec says so of a server that refuses, or that is not there, too.
        words = _words_of_server(error.__cause__)
        if not words:
            raise
        raise OSError(words) from error
    except (OSError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise OSError(lines[0] if lines else type(error).__name__) from error


def _words_of_server(error: BaseException | None) -> str:
    """Why a file could not be had, where it is not that there is none; else empty."""
    status = getattr(error, "status", None)
    if isinstance(status, int) and status not in (404, 410):
        said = str(getattr(error, "message", "")).strip()
        return f"the server says {status} {said}".rstrip()
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        lines = str(error).strip().splitlines()
        host = getattr(error, "host", None)
        reason = getattr(error, "strerror", None) or (lines[0] if lines else type(error).__name__)
        return f"cannot reach {host}: {reason}" if host else str(reason)
    return ""


def _may_wait(source: Any) -> bool:
    """Whether behind a file object there is a pipe, a terminal or a socket."""
    try:
        return not stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    except (AttributeError, OSError, TypeError, ValueError):
        return False  # a file of Python's own: it has no number


def _size_of(file: io.FileIO) -> int | None:
    """The size of a regular file; None for pipes and devices."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
