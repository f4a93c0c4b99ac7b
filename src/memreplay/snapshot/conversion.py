"""A snapshot's bytes in another form, read as a snapshot on the way: what holds must still hold."""

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
KEEP_PROTOCOL = "--protocol 5 keeps it, but PyTorch's viewer then can't read the file"


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
    source, byte for byte; but a pickle of protocol 5 becomes one of 4, which PyTorch's viewer
    reads. Pickle to pickle keeps everything, in a piece of memory; what goes to JSON or comes from
    it is held as a whole, and written once it has been read back as the same snapshot. The bytes
    are a snapshot only if this returns.

    Raises
    ------
    SnapshotError
        It is no snapshot, cannot be replayed, or holds what the other form cannot say.
    OSError
        It can't be read, or `write` failed.
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
    """A pickle of plain data as JSON. Raises SnapshotError for what JSON does not have."""
    from memreplay.engine.write import _converting

    yield from _converting.Spelled(pickled)


def _replay(snap: Snapshot) -> None:
    """Raises SnapshotError for what is read and refused later: sizes whose sum is too large,
    settings without end."""
    _kept(snap)
    for device in snap.devices:
        _timeline.Replay(snap.native, device)


def _kept(snap: Snapshot) -> str:
    return repr([snap.kept(name) for name in KEPT])


def _check(
    made: Iterable[bytes], form: str, snap: Snapshot, limits: Limits | None, hint: str
) -> None:
    """Raises SnapshotError unless what is `made` of a snapshot is read as the same one."""
    try:
        again = open_snapshot(cast("BinaryIO", _File(_reader(made))), limits=limits)
        kept = _kept(again)
    except SnapshotError as error:
        raise SnapshotError(
            f"as {form} it could not be read again: {error.message}", hint=hint
        ) from error
    rows = zip_longest(_dump.dump(snap.native, True), _dump.dump(again.native, True))
    if kept != _kept(snap) or any(one != other for one, other in rows):
        raise SnapshotError(f"as {form} it would be read as another snapshot", hint=hint)


def _reader(pieces: Iterable[bytes]) -> Callable[[memoryview], int]:
    """Pieces as a raw file's `readinto`."""
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
        self._make: Callable[[], Iterable[bytes]] | None = None
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

    def finish(self, snap: Snapshot, limits: Limits | None) -> None:
        """Reads on to the end, as all of it goes on; raises what has failed meanwhile."""
        room = memoryview(bytearray(PIECE))
        while self._failed is None and self.readinto(room):
            pass
        if self._failed is not None:
            raise self._failed
        if self._make is not None:
            from memreplay.engine.write._converting import PLAIN

            form = "JSON" if self._fmt == "json" else "a pickle"
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
        # PyTorch's hosted viewer reads no protocol after 4.
        too_new = self._protocol is None and head[:1] == b"\x80" and head[1:2] > b"\x04"
        protocol = DEFAULT_PROTOCOL if too_new else self._protocol
        if protocol is None or head[:2] == bytes([0x80, protocol]):
            return self._write
        return self._transcode(protocol, KEEP_PROTOCOL if too_new else None)

    def _transcode(self, protocol: int, hint: str | None) -> Write:
        from memreplay.engine.write import _converting

        transcoder = _converting.Transcoder(protocol)
        # Of this object itself nothing that it keeps may be made: they would hold each other.
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
        """Takes the whole; `maker` gives what makes it anew each time."""
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
    """What reads into a buffer as a binary file, to be read forwards."""

    def __init__(self, readinto: Callable[[memoryview], int]) -> None:
        self.readinto = readinto

    def read(self, size: int) -> bytes:
        room = bytearray(size)
        return bytes(room[: self.readinto(memoryview(room))])
