"""Copy the snapshot keys that memreplay doesn't read into a slice."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from memreplay import _core
from memreplay.engine.write import _converting, _slicing
from memreplay.errors import SnapshotError
from memreplay.export.snapshots.records import LeftOut
from memreplay.io.container import open_stream
from memreplay.io.limits import Limits
from memreplay.snapshot.snapshot import KEPT

if TYPE_CHECKING:
    from memreplay.io.packing import Format
    from memreplay.snapshot.snapshot import Snapshot

# Keys that the slice itself writes.
KNOWN = [b"segments", b"device_traces", b"external_annotations", *map(str.encode, KEPT.values())]
_PIECE = 1 << 20


class Unknown(NamedTuple):
    """Items of the snapshot's dict that memreplay doesn't read: those to copy, and those that can't
    be copied.
    """

    items: _slicing.Unknown | None = None
    chosen: tuple[int, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Source(NamedTuple):
    """How to read the file again; `pick` is 0 if it holds one snapshot."""

    file: str
    limits: Limits
    pick: int


def unknown_of(snap: Snapshot, source: Source, *, stripped: bool, fmt: Format) -> Unknown:
    """Find the file's unknown items, reading the file again if there are any.

    Unknown items are copied in full, whatever the slice's range is.
    """
    if not snap.native.unknown_keys:
        return Unknown()
    if stripped:
        return _none("they may contain frames, which --strip-frames removes")
    if source.file == "-":
        return _none("standard input can't be read twice; give a file name")
    if snap.truncation is not None:
        return _none("the file is cut off")
    try:
        data, at = pickle_of(snap, source)
        items = _slicing.Unknown(data, at, KNOWN)
    except SnapshotError as error:
        return _none(error.message)
    flaws = items.flaws()
    if fmt == "json":
        flaws = [flaw or _json_flaw(items, i) for i, flaw in enumerate(flaws)]
    return Unknown(
        items,
        tuple(i for i, flaw in enumerate(flaws) if not flaw),
        tuple(LeftOut(_name(items, i), flaw) for i, flaw in enumerate(flaws) if flaw),
    )


def _none(why: str) -> Unknown:
    return Unknown(left_out=(LeftOut(None, why),))


def pickle_of(snap: Snapshot, source: Source) -> tuple[bytes, int]:
    """Return the file as a pickle, and the offset of the snapshot's first list."""
    data = _plain(source.file, source.limits)
    if snap.protocol >= 0:
        return data, snap.native.adopted_at
    made = b"".join(_converting.Pickled(data, 4))
    numbers = source.limits.numbers()
    native = _core.read(
        io.BytesIO(made).readinto, numbers, None, False, None, None, None, source.pick
    )
    return made, native.adopted_at


def _plain(file: str, limits: Limits) -> bytes:
    stream = open_stream(file, limits.decompression_ratio)
    whole = bytearray()
    room = memoryview(bytearray(_PIECE))
    try:
        while n := stream.readinto(room):
            whole += room[:n]
    finally:
        stream.close()
    return bytes(whole)


def _json_flaw(items: _slicing.Unknown, i: int) -> str:
    """Return why an item can't be written as JSON, or ""."""
    try:
        key = b"".join(_converting.Spelled(items.key(i)))
        _converting.Spelled(items.value(i))
    except SnapshotError as error:
        return error.message
    return "" if key.startswith(b'"') else "not possible in JSON: a key that isn't a string"


def _name(items: _slicing.Unknown, i: int) -> str | None:
    """Return a key as JSON, or None if it can't be written."""
    try:
        return b"".join(_converting.Spelled(items.key(i))).decode("utf-8", "replace")
    except SnapshotError:
        return None
