"""Compare written output with the input: slices, datasets, lines, and other forms."""

from __future__ import annotations

import base64
import json
import re
import tempfile
import zlib
from collections import Counter
from functools import cache
from typing import Any

import memreplay as mr
from memreplay.engine.write._dump import dump
from memreplay.errors import UsageError
from memreplay.export.snapshots.cutting import cut
from memreplay.io.dataset_files import FORMATS
from memreplay.snapshot.conversion import as_json, convert
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.retold import retold
from tests.fuzz import datasets

WRITTEN_EVENTS = 5_000
FORMS: tuple[dict[str, Any], ...] = (
    {"fmt": "json"},
    *({"fmt": "pickle", "protocol": protocol} for protocol in (2, 3, 4, 5)),
)
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4")
TABLES = ("segments", "blocks", "traces", "events", "annotations")


def written(data: bytes | None, snap: mr.Snapshot, dice: int) -> None:
    """Run all writers once, with random arguments, and convert `data` to other forms if all of it
    was read. Re-raise unexpected errors.
    """
    # Output is kept in memory along with its input, so only small inputs fit the memory limit.
    if snap.native.n_events >= WRITTEN_EVENTS:
        return
    lines_of(snap)
    flat_table(snap)
    usage_table(snap)
    if not snap.range_is_empty:  # commands report an error for a snapshot without events
        slice_of(snap, dice)
    if dice % 2 == 0:
        page_of(snap)
    if dice % 4 == 0:
        dataset_of(snap, dice // 4)
    if dice % 4 == 1:
        retold_of(snap, SETTINGS[dice // 4 % len(SETTINGS)])
    if data is not None and snap.truncation is None and dice % 2 == 0:
        other_form_of(data, snap, dice // 2)


def lines_of(snap: mr.Snapshot) -> None:
    """Check that every row is one line."""
    native = snap.native
    rows = [json.loads(line) for line in b"".join(dump(native, True)).splitlines()]
    found = Counter(row["table"] for row in rows)
    # A range on one device leaves out other devices' rows.
    if snap.only is None:
        want = (native.n_segments, native.n_blocks, len(native.traces()), native.n_events)
        for table, count in zip(TABLES, (*want, native.n_annotations), strict=True):
            if found[table] != count:
                raise AssertionError(f"{found[table]} lines of {count} rows of {table}")
    text = b"".join(dump(native, False))
    if not text.isascii() or (text and not text.endswith(b"\n")):
        raise AssertionError("lines that are not whole")


def slice_of(snap: mr.Snapshot, dice: int) -> None:
    """Check that a slice is a snapshot with the same numbers, and that a reduced slice can be
    read.
    """
    pickled = b"".join(cut(snap)[1])
    part = mr.open(pickled)
    owners = snap.segments.device[snap.blocks.segment].tolist()
    places = list(zip(owners, snap.blocks.address.tolist(), strict=True))
    twice = {device for (device, _), count in Counter(places).items() if count > 1}
    for device in snap.devices:
        want = snap.replay(device)
        if device not in part.devices:
            if want.events or want.carried_over_bytes:
                raise AssertionError(f"device {device} is not in the slice")
            continue
        if device in twice:
            continue  # of two blocks at one address, only one can be true
        found = part.replay(device)
        for name in ("requested", "held"):
            there, here = want.measure(name), found.measure(name)
            if here.start_bytes != there.start_bytes or (here.series != there.series).any():
                raise AssertionError(f"device {device}: {name} of the slice is another")
    strip: Any = ("all", "plumbing")[dice % 2]
    mr.open(b"".join(cut(snap, min_bytes=dice % 4096, strip=strip)[1]))
    if dice % 4 == 1:
        same_rows(part, mr.open(b"".join(as_json(pickled))), "a slice as JSON")


def page_of(snap: mr.Snapshot) -> None:
    """Check that a browser page has the same peaks and that its text has no tags. Numbers too large
    for a page must be an error.
    """
    try:
        html = snap.view().html
    except mr.LimitError as error:
        if not str(error).isprintable() or "browser" not in str(error):
            raise AssertionError(f"an error of a page: {error}") from error
        return
    if html.count(b"<") != tags():
        raise AssertionError("a page with a tag more, or less")
    (said,) = re.findall(rb'id="memreplay-page">([^<]*)</script>', html)
    (columns,) = re.findall(rb'class="memreplay-columns">([^<]*)</script>', html)
    (data,) = json.loads(said)["snapshots"]
    if len(zlib.decompress(base64.b64decode(columns, validate=True))) != data["bytes"]:
        raise AssertionError("a page with other columns than it says")
    for device, found in zip(snap.devices, data["devices"], strict=True):
        replay = snap.replay(device)
        peaks = {name: replay.measure(name).peak.bytes for name in MEASURES}
        if {name: one["bytes"] for name, one in found["peaks"].items()} != peaks:
            raise AssertionError(f"device {device}: other peaks on the page")


@cache
def tags() -> int:
    """Return the number of allocations on a page, whatever their kind."""
    return mr.open(b'{"segments": [], "device_traces": []}').view().html.count(b"<")


def dataset_of(snap: mr.Snapshot, dice: int) -> None:
    """Check that exported tables are a dataset with the same numbers, and that a range's tables
    aren't a dataset.
    """
    packed = datasets.exported(snap, FORMATS[dice % 2])
    with tempfile.TemporaryDirectory(prefix="memreplay-fuzz-") as folder:
        datasets.unpacked(packed, folder)
        try:
            found = mr.open(folder)
        except mr.SnapshotError as error:
            if "has a range" not in str(error):
                raise AssertionError(f"a dataset that cannot be read: {error}") from error
            return
        if found.devices != snap.devices:
            raise AssertionError(f"devices {snap.devices} are {found.devices} in the dataset")
        for device in snap.devices:
            for name in MEASURES:
                there, here = (one.replay(device).measure(name) for one in (snap, found))
                if here.start_bytes != there.start_bytes or (here.series != there.series).any():
                    raise AssertionError(f"device {device}: {name} of the dataset is another")


def flat_table(snap: mr.Snapshot) -> None:
    """Check that the flat table agrees with the plain one, and is valid."""
    plain = mr.table(snap, "allocations").to_arrow()
    flat = mr.table(snap, "allocations", flat=True).to_arrow()
    flat.validate(full=True)
    if not flat.select(plain.column_names).equals(plain):
        raise AssertionError("the flat table has other allocations")
    asked_for = flat["function"].is_null()
    if (asked_for.to_numpy() & (flat["stack_id"].to_numpy() != 0)).any():
        raise AssertionError("an allocation with a stack and without a function")


def usage_table(snap: mr.Snapshot) -> None:
    """Check that there's one row per event, with the right bytes for each measure."""
    rows = mr.table(snap, "usage").to_arrow()
    rows.validate(full=True)
    for name in MEASURES:
        usages = [snap.replay(device).measure(name) for device in snap.devices]
        there = [bytes_ for one in usages for bytes_ in (one.start_bytes, *one.series.tolist())]
        if rows[f"{name}_bytes"].to_pylist() != there:
            raise AssertionError(f"{name} of the table of usage is another")


def retold_of(snap: mr.Snapshot, settings: str) -> None:
    """Check that the snapshot of a simulation has the simulation's peaks."""
    try:
        found = {one: snap.replay(one).simulate(settings) for one in snap.devices}
        told = mr.open(b"".join(cut(retold(snap, found))[1])) if found else snap
    except UsageError as error:
        if not str(error).isprintable():
            raise AssertionError(f"an error of more than one line: {error!r}") from error
        return
    for device, simulated in found.items():
        if device not in told.devices and not simulated.outcome.reserved_peak_bytes:
            continue  # the range has nothing to simulate
        peak = told.replay(device).measure("reserved").peak.bytes
        if simulated.stopped_event is None and peak != simulated.outcome.reserved_peak_bytes:
            raise AssertionError(f"device {device}: {peak} reserved, and {simulated.outcome}")


def other_form_of(data: bytes, snap: mr.Snapshot, dice: int) -> None:
    """Check that converting the input doesn't change the result, unless the other form can't
    represent it.
    """
    form = FORMS[dice % len(FORMS)]
    made = bytearray()
    try:
        convert(data, made.extend, **form)
    except mr.SnapshotError as error:
        if not str(error).isprintable() or (not error.hint and error.offset is None):
            raise AssertionError(f"an error of more or less than one line: {error!r}") from error
        return
    same_rows(snap, mr.open(bytes(made)), str(form))


def same_rows(one: mr.Snapshot, other: mr.Snapshot, what: str) -> None:
    """Compare by rows, because the order of strings may differ."""
    if b"".join(dump(one.native, True)) != b"".join(dump(other.native, True)):
        raise AssertionError(f"{what} has other rows than {one!r}")
