"""A snapshot's bytes in another form, read as a snapshot on the way: what holds must still hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from memreplay.container import Source, open_stream
from memreplay.errors import SnapshotError
from memreplay.model import Limits
from memreplay.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.packing import Format
    from memreplay.snapshot import Progress, Snapshot

Write = Callable[[bytes], object]

PIECE = 1 << 20
DEFAULT_PROTOCOL = 4


def convert(
    source: Source,
    write: Write,
    *,
    fmt: Format | None = None,
    protocol: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Gives the plain bytes of `source` in another form to `write`, and what was read of them.

    Without `fmt` and `protocol`, or where the source has both already, they are those of the
    source, byte for byte. Pickle to pickle keeps everything, in a piece of memory; what goes to
    JSON or comes from it is held as a whole. The bytes are a snapshot only if this returns.

    Raises
    ------
    SnapshotError
        It is no snapshot, or holds what the other form cannot say.
    OSError
        It can't be read, or `write` failed.
    """
    stream = open_stream(source, (limits or Limits()).decompression_ratio)
    tee = _Tee(stream.readinto, write, fmt, protocol)
    try:
        snap = open_snapshot(
            cast("BinaryIO", _File(tee)), limits=limits, progress=_known(progress, stream.total)
        )
        tee.finish()
    finally:
        stream.close()
    return snap


def as_json(pickled: bytes) -> Iterator[bytes]:
    """A pickle of plain data as JSON. Raises SnapshotError for what JSON does not have."""
    from memreplay import _converting

    yield from _converting.Spelled(pickled)


def _known(progress: Progress | None, total: int | None) -> Progress | None:
    if progress is None:
        return None
    return lambda done, _total: progress(done, total)


class _Tee:
    """What is read goes on, as it is or in another form.

    Reading may happen on another thread: what fails here is kept, and raised by `finish`.
    """

    def __init__(
        self,
        readinto: Callable[[memoryview], int],
        write: Write,
        fmt: Format | None,
        protocol: int | None,
    ) -> None:
        self._readinto = readinto
        self._write = write
        self._fmt = fmt
        self._protocol = protocol
        self._feed: Write | None = None
        self._end: Callable[[], None] = lambda: None
        self._failed: Exception | None = None

    def readinto(self, room: memoryview) -> int:
        """As a raw file's."""
        n = self._readinto(room)
        if n and self._failed is None:
            try:
                data = bytes(room[:n])
                if self._feed is None:
                    self._feed = self._choose(data)
                self._feed(data)
            except Exception as error:
                self._failed = error
        return n

    def finish(self) -> None:
        """Reads on to the end, as all of it goes on; raises what has failed meanwhile."""
        room = memoryview(bytearray(PIECE))
        while self._failed is None and self.readinto(room):
            pass
        if self._failed is not None:
            raise self._failed
        self._end()

    def _choose(self, head: bytes) -> Write:
        text = head.lstrip()[:1]
        is_json = text in (b"{", b"[") or head.startswith(b"\xef\xbb\xbf")
        fmt = self._fmt or ("json" if is_json else "pickle")
        if is_json and fmt == "pickle":
            return self._collect(self._to_pickle)
        if is_json:
            if self._protocol is not None:
                raise SnapshotError("JSON has no protocol; write a pickle (.pkl)")
            return self._write
        if fmt == "json":
            return self._collect(self._to_json)
        if self._protocol is None or head[:2] == bytes([0x80, self._protocol]):
            return self._write
        return self._transcode(self._protocol)

    def _transcode(self, protocol: int) -> Write:
        from memreplay import _converting

        transcoder = _converting.Transcoder(protocol)

        def feed(data: bytes) -> None:
            if made := transcoder.feed(data):
                self._write(made)

        return feed

    def _collect(self, make: Callable[[bytes], Iterator[bytes]]) -> Write:
        whole = bytearray()

        def end() -> None:
            for piece in make(bytes(whole)):
                self._write(piece)

        self._end = end
        return whole.extend

    def _to_json(self, data: bytes) -> Iterator[bytes]:
        return as_json(data)

    def _to_pickle(self, data: bytes) -> Iterator[bytes]:
        from memreplay import _converting

        yield from _converting.Pickled(data, self._protocol or DEFAULT_PROTOCOL)


class _File:
    """The tee as a binary file, to be read forwards."""

    def __init__(self, tee: _Tee) -> None:
        self.readinto = tee.readinto

    def read(self, size: int) -> bytes:
        room = bytearray(size)
        return bytes(room[: self.readinto(memoryview(room))])
