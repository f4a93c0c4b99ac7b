"""Convert a snapshot's bytes to another format, and check the result by reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, BinaryIO, cast

from memreplay.engine.replay import _timeline
from memreplay.engine.write import _dump
from memreplay.errors import SnapshotError
from memreplay.io.container import Source, open_stream
from memreplay.io.limits import Limits
from memreplay.snapshot.snapshot import KEPT
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.io.packing import Format
    from memreplay.snapshot.snapshot import Progress, Snapshot

Write = Callable[[bytes], object]

PIECE = 1 << 20
DEFAULT_PROTOCOL = 4
KEEP_PROTOCOL = "--protocol 5 keeps it, but PyTorch's viewer can't read that"


def convert(
    source: Source,
    write: Write,
    *,
    fmt: Format | None = None,
    protocol: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Read `source`, pass its plain bytes in another format to `write`, and return the snapshot.

    If `fmt` and `protocol` aren't given, or match the source, the bytes are copied. However, a
    pickle of protocol 5 is rewritten in protocol 4, which PyTorch's viewer can read. Conversions
    from pickle to pickle keep everything and are streamed. The result of a conversion to or from
    JSON is held in memory, and only written after it was read back as the same snapshot. The output
    is a snapshot only if this function returns.

    Raises
    ------
    SnapshotError
        The source isn't a snapshot, can't be replayed, or contains something that the other format
        doesn't support.
    OSError
        The source can't be read, or `write` failed.
    """
    stream = open_stream(source, (limits or Limits()).decompression_ratio)
    tee = _Tee(stream.readinto, write, fmt, protocol)
    try:
        snap = open_snapshot(
            cast("BinaryIO", _File(tee.readinto)),
            limits=limits,
            progress=_known(progress, stream.total),
        )
        _replay(snap)
        tee.finish(snap, limits)
    finally:
        stream.close()
    return snap


def as_json(pickled: bytes) -> Iterator[bytes]:
    """Convert a pickle of plain data to JSON. Raises SnapshotError if JSON doesn't support it."""
    from memreplay.engine.write import _converting

    yield from _converting.Spelled(pickled)


def _replay(snap: Snapshot) -> None:
    """Raise SnapshotError for errors that only appear after reading: sizes that overflow, cyclic
    settings.
    """
    _kept(snap)
    for device in snap.devices:
        _timeline.Replay(snap.native, device)


def _kept(snap: Snapshot) -> str:
    return repr([snap.kept(name) for name in KEPT])


def _check(
    made: Iterable[bytes], form: str, snap: Snapshot, limits: Limits | None, hint: str
) -> None:
    """Raise SnapshotError unless `made` can be read as the same snapshot."""
    try:
        again = open_snapshot(cast("BinaryIO", _File(_reader(made))), limits=limits)
        kept = _kept(again)
    except SnapshotError as error:
        raise SnapshotError(
            f"the resulting {form} can't be read: {error.message}", hint=hint
        ) from error
    rows = zip_longest(_dump.dump(snap.native, True), _dump.dump(again.native, True))
    if kept != _kept(snap) or any(one != other for one, other in rows):
        raise SnapshotError(f"the resulting {form} isn't the same snapshot", hint=hint)


def _reader(pieces: Iterable[bytes]) -> Callable[[memoryview], int]:
    """Return a raw file's `readinto` for chunks."""
    left = memoryview(b"")
    waiting = iter(pieces)

    def readinto(room: memoryview) -> int:
        nonlocal left
        while not left:
            piece = next(waiting, None)
            if piece is None:
                return 0
            left = memoryview(piece)
        n = min(len(room), len(left))
        room[:n] = left[:n]
        left = left[n:]
        return n

    return readinto


def _known(progress: Progress | None, total: int | None) -> Progress | None:
    if progress is None:
        return None
    return lambda done, _total: progress(done, total)


class _Tee:
    """Passes on the bytes that are read, unchanged or converted.

    The reader may run on another thread, so errors are stored, and `finish` raises them.
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
        self._make: Callable[[], Iterable[bytes]] | None = None
        self._failed: Exception | None = None

    def readinto(self, room: memoryview) -> int:
        """Implement a raw file's readinto()."""
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

    def finish(self, snap: Snapshot, limits: Limits | None) -> None:
        """Read to the end, passing on the bytes; raise a stored error."""
        room = memoryview(bytearray(PIECE))
        while self._failed is None and self.readinto(room):
            pass
        if self._failed is not None:
            raise self._failed
        if self._make is not None:
            from memreplay.engine.write._converting import PLAIN

            form = "JSON" if self._fmt == "json" else "pickle"
            _check(self._make(), form, snap, limits, PLAIN)
            for piece in self._make():
                self._write(piece)

    def _choose(self, head: bytes) -> Write:
        text = head.lstrip()[:1]
        is_json = text in (b"{", b"[") or head.startswith(b"\xef\xbb\xbf")
        fmt = self._fmt or ("json" if is_json else "pickle")
        if is_json and fmt == "pickle":
            return self._collect(partial(_to_pickle, self._protocol or DEFAULT_PROTOCOL))
        if is_json:
            if self._protocol is not None:
                raise SnapshotError("JSON has no protocol; write a pickle (.pkl)")
            return self._write
        if fmt == "json":
            return self._collect(_to_json)
        # PyTorch's hosted viewer can't read protocols above 4.
        too_new = self._protocol is None and head[:1] == b"\x80" and head[1:2] > b"\x04"
        protocol = DEFAULT_PROTOCOL if too_new else self._protocol
        if protocol is None or head[:2] == bytes([0x80, protocol]):
            return self._write
        return self._transcode(protocol, KEEP_PROTOCOL if too_new else None)

    def _transcode(self, protocol: int, hint: str | None) -> Write:
        from memreplay.engine.write import _converting

        transcoder = _converting.Transcoder(protocol)
        # Don't capture `self`, because that would create a reference cycle.
        write = self._write

        def feed(data: bytes) -> None:
            try:
                made = transcoder.feed(data)
            except SnapshotError as error:
                raise SnapshotError(
                    error.message, offset=error.offset, hint=hint or error.hint
                ) from None
            if made:
                write(made)

        return feed

    def _collect(self, maker: Callable[[bytes], Callable[[], Iterable[bytes]]]) -> Write:
        """Collect all input, then convert it. `maker` returns a function that starts the conversion
        each time it's called.
        """
        whole = bytearray()
        made: Callable[[], Iterable[bytes]] | None = None

        def make() -> Iterable[bytes]:
            nonlocal made
            if made is None:
                made = maker(bytes(whole))
                whole.clear()
            return made()

        self._make = make
        return whole.extend


def _to_json(data: bytes) -> Callable[[], Iterable[bytes]]:
    from memreplay.engine.write import _converting

    spelled = _converting.Spelled(data)
    return lambda: spelled


def _to_pickle(protocol: int, data: bytes) -> Callable[[], Iterable[bytes]]:
    from memreplay.engine.write import _converting

    return lambda: _converting.Pickled(data, protocol)


class _File:
    """A forward-only binary file that uses a `readinto` function."""

    def __init__(self, readinto: Callable[[memoryview], int]) -> None:
        self.readinto = readinto

    def read(self, size: int) -> bytes:
        room = bytearray(size)
        return bytes(room[: self.readinto(memoryview(room))])
