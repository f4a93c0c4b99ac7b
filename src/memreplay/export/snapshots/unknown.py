"""What a cut snapshot keeps of the keys of a snapshot that memreplay does not read."""

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

# What a slice writes itself.
KNOWN = [b"segments", b"device_traces", b"external_annotations", *map(str.encode, KEPT.values())]
_PIECE = 1 << 20


class Unknown(NamedTuple):
    """Items of the snapshot's dict, and those that a slice can't have."""

    items: _slicing.Unknown | None = None
    chosen: tuple[int, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Source(NamedTuple):
    """How to read the file once more; `pick` is 0 where it holds one snapshot."""

    file: str
    limits: Limits
    pick: int


def unknown_of(snap: Snapshot, source: Source, *, stripped: bool, fmt: Format) -> Unknown:
    """Find them in the file, which is read once more if it has any. They are kept whole, whatever
    part of the events the slice has."""
    if not snap.native.unknown_keys:
        return Unknown()
    if stripped:
        return _none("they may hold frames, which --strip-frames leaves out")
    if source.file == "-":
        return _none("standard input can't be read twice; give the file's name")
    if snap.truncation is not None:
        return _none("the file is cut off")
    try:
        data, at = _pickle_of(snap, source)
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


def _pickle_of(snap: Snapshot, source: Source) -> tuple[bytes, int]:
    """The file as a pickle, and where the snapshot's first list begins in it."""
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
    """Why JSON can't say an item; empty if it can."""
    try:
        key = b"".join(_converting.Spelled(items.key(i)))
        _converting.Spelled(items.value(i))
    except SnapshotError as error:
        return error.message
    return "" if key.startswith(b'"') else "JSON cannot say it: a key that is no text"


def _name(items: _slicing.Unknown, i: int) -> str | None:
    """A key as JSON spells it; None of one that it can't."""
    try:
        return b"".join(_converting.Spelled(items.key(i))).decode("utf-8", "replace")
    except SnapshotError:
        return None
