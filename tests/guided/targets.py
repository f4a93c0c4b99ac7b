"""The functions that libFuzzer calls with inputs: they read, write, or run all queries."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import memreplay as mr
from memreplay.engine.write._dump import dump
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.conversion import as_json, convert
from tests.fuzz.check import (
    WrongError,
    analyse,
    attempt,
    can_be_replayed,
    check,
    check_against_python,
)
from tests.fuzz.commands import ask
from tests.fuzz.writers import FORMS, page_of, same_rows, written

Judge = Callable[[bytes], bool]  # returns whether the input could be read


def read(data: bytes) -> bool:
    """Read and replay an input: the whole, a salvaged part, or a range."""
    dice = zlib.crc32(data)
    how: dict[str, Any] = {}
    if dice % 4 == 1:
        how["salvage"] = True
    elif dice % 4 == 2:
        how.update(start=dice // 4 % 8, stop=8 + dice // 32 % 8)
    try:
        snap = attempt(data, **how)
    except mr.UsageError:
        return False  # the input doesn't have these events
    if isinstance(snap, mr.SnapshotError) or not can_be_replayed(snap, data):
        return False
    for device in snap.devices[:2]:
        replay = snap.replay(device)
        most = max([replay.carried_over_bytes, *replay.usage[:64].tolist()])
        if replay.peak.bytes < most:
            raise WrongError(f"a peak of {replay.peak.bytes} below {most}")
    return True


def text(data: bytes) -> bool:
    """Like `read`, for JSON; the opening bracket is added, because the reader recognizes JSON by
    its start.
    """
    return read(b"{" + data)


def write(data: bytes) -> bool:
    """Run each writer (lines, slices, other forms, tables, pages), and read back its output."""
    snap = attempt(data)
    if isinstance(snap, mr.SnapshotError) or not can_be_replayed(snap, data):
        return False
    dice = zlib.crc32(data)
    kind, dice = dice % 8, dice // 8
    if kind == 0:
        b"".join(dump(snap.native, bool(dice % 2)))
    elif kind == 1 and not snap.range_is_empty:
        pickled = b"".join(cut(snap, min_bytes=dice % 1024)[1])
        same_rows(mr.open(pickled), mr.open(b"".join(as_json(pickled))), "a slice as JSON")
    elif kind == 2:
        page_of(snap)
    elif kind == 3:
        written(data, snap, dice)
    else:
        other_form(data, snap, FORMS[dice % len(FORMS)])
    return True


def other_form(data: bytes, snap: mr.Snapshot, form: dict[str, Any]) -> None:
    made = bytearray()
    try:
        convert(data, made.extend, **form)
    except mr.SnapshotError as error:
        if not str(error).isprintable():
            raise WrongError(f"an error of more than one line: {error!r}") from error
        return
    same_rows(snap, mr.open(bytes(made)), str(form))


def report(data: bytes) -> bool:
    """Run every command that reads a snapshot, with random options."""
    snap = attempt(data)
    if isinstance(snap, mr.SnapshotError) or not can_be_replayed(snap, data):
        return False
    dice = zlib.crc32(data)
    if dice % 2:
        ask(snap, dice // 2)
    else:
        analyse(snap, dice // 2)
    return True


def everything(data: bytes) -> bool:
    """Check everything that `make fuzz` checks, and that readable inputs match Python."""
    outcome = check(data)
    check_against_python(data, outcome)
    return outcome in ("read", "salvaged")


TARGETS: dict[str, Judge] = {
    "read": read,
    "text": text,
    "write": write,
    "report": report,
    "everything": everything,
}
