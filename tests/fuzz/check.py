"""Judge one input: read it in every way, and compare the results."""

from __future__ import annotations

import json
import math
import re
import tempfile
import traceback
import zlib
from typing import Any

import memreplay as mr
from memreplay.commands.peak.find import peak_report
from memreplay.commands.peak.text import peak_document
from memreplay.commands.summary.find import summarize
from memreplay.commands.summary.text import summary_document
from memreplay.io.container import MAGIC
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import By, MeasureName, Moment
from tests import build, oracle
from tests.compare import assert_like_oracle
from tests.fuzz import datasets
from tests.fuzz.commands import ask
from tests.fuzz.writers import written

WINDOW = 1 << 20  # bytes in the reader's window
BYS: tuple[By, ...] = ("stack", "line", "file", "function")
DEVICES = 4  # examined per input
# Errors without a byte position: a plain input is empty, or in another format altogether.
PLACELESS = (
    "the file is empty",
    "not a memory snapshot: a dict with neither",
    "not a memory snapshot, but ",
    "truncated file",
    "the allocator settings, or memreplay's notes, have too many",
    "the sizes of device ",
    "the file has no snapshot ",
)
SEVERAL = re.compile(r"(\d+) snapshots in one file")
ORACLE_BYTES = 20 << 10


class WrongError(Exception):
    """A result that can't be right."""


def must(true: object, what: str) -> None:
    if not true:
        raise WrongError(what)


def check(data: bytes) -> str:
    """Read one input and return its outcome as a word. Raise an exception if anything is wrong."""
    dice = zlib.crc32(data)
    if data.startswith(datasets.MAGIC):
        return check_dataset(data, dice)
    whole = attempt(data)
    if isinstance(whole, mr.SnapshotError):
        if several := SEVERAL.match(str(whole)):
            check_pick(data, int(several[1]), dice)
        if isinstance(whole, mr.TruncatedError) or dice % 8 == 0:
            salvaged = check_salvage(data, whole)
            if salvaged is not None and can_be_replayed(salvaged, data):
                analyse(salvaged, dice)
                check_range(data, salvaged, dice, salvage=True)
                return "salvaged"
    else:
        if not can_be_replayed(whole, data):
            return "no replay"
        analyse(whole, dice)
        check_range(data, whole, dice)
        if dice % 8 == 0:
            must(same(whole, attempt(data, salvage=True)), "salvage changes a whole file")
        if dice % 8 in (3, 5):
            written(data, whole, dice // 8)
    if dice % 32 == 1:
        check_window_edge(data, whole, dice)
    return type(whole).__name__ if isinstance(whole, mr.SnapshotError) else "read"


def check_dataset(data: bytes, dice: int) -> str:
    """Check an exported dataset, which is read from a folder."""
    with tempfile.TemporaryDirectory(prefix="memreplay-fuzz-") as folder:
        if not datasets.unpacked(data, folder):
            return "no dataset"
        whole = attempt(folder)
        if isinstance(whole, mr.SnapshotError):
            return type(whole).__name__
        if not can_be_replayed(whole, folder):
            return "no replay"
        analyse(whole, dice)
        check_range(folder, whole, dice)
        if dice % 4 == 1:
            written(None, whole, dice // 4)
    return "read"


def attempt(data: bytes | str, **how: Any) -> mr.Snapshot | mr.SnapshotError:
    """Open the input; return the snapshot or its error, which must be well-formed and of an
    accepted kind.
    """
    try:
        return mr.open(data, **how)
    except mr.SnapshotError as error:
        check_error(error, data)
        return error


def can_be_replayed(snap: mr.Snapshot, data: bytes | str) -> bool:
    """Return whether lazily computed parts (settings, sums of sizes) can be computed."""
    try:
        _ = snap.settings, snap.kept("overflowed"), snap.kept("max_entries")
        for device in snap.devices:
            snap.replay(device)
    except mr.SnapshotError as error:
        check_error(error, data)
        return False
    return True


def check_error(error: mr.SnapshotError, data: bytes | str) -> None:
    text = str(error)
    must(text.isprintable(), f"an error of more than one plain line: {text!r}")
    must(len(text) < 1_000, f"an error of {len(text)} characters")
    must(error.hint, f"an error without a remedy: {text}")
    if isinstance(data, str):
        return  # in a dataset, positions are row numbers
    if error.offset is None:
        placeless = text.startswith(PLACELESS) or SEVERAL.match(text)
        must(is_packed(data) or placeless, f"an error without a place: {text}")
    elif not is_packed(data):
        must(0 <= error.offset <= len(data), f"a place that is not in the file: {text}")


def is_packed(data: bytes) -> bool:
    return any(data.startswith(magic) for magic, _ in MAGIC)


def check_pick(data: bytes, count: int, dice: int) -> None:
    """Check that each of several snapshots in a file can be picked, and that picking a missing one
    is an error.
    """
    must(count > 1, f"{count} snapshots are several")
    picked = attempt(data, pick=1 + dice % count)
    if isinstance(picked, mr.Snapshot) and can_be_replayed(picked, data):
        analyse(picked, dice)
    beyond = attempt(data, pick=count + 1)
    must(isinstance(beyond, mr.SnapshotError), "a snapshot behind the last one")


def check_salvage(data: bytes, whole: mr.SnapshotError) -> mr.Snapshot | None:
    """Salvage a truncated input; other errors leave nothing to salvage."""
    found = attempt(data, salvage=True)
    if isinstance(whole, mr.TruncatedError):
        if isinstance(found, mr.SnapshotError):
            return None
        must(found.truncation is not None, "salvaged, and not said")
        return found
    must(type(found) is type(whole), f"salvage turns {whole!r} into {found!r}")
    return None


# ---- what is reported about an input -------------------------------------------------------------


def analyse(snap: mr.Snapshot, dice: int) -> None:
    """Query everything in a snapshot, and check that the results agree."""
    summary = summarize(snap)
    report = peak_report(snap, by=BYS[dice % 4], top=(0, 1, 3, 20)[dice // 4 % 4])
    devices = snap.devices
    must(len(summary.devices) == len(report.devices) == len(devices), "devices left out")
    for i in {*range(len(devices))[:DEVICES], *range(len(devices))[-1:]}:
        replay, peak, facts = snap.replay(devices[i]), report.devices[i], summary.devices[i]
        held = sum(group.bytes for group in peak.groups) + peak.rest_bytes
        count = sum(group.count for group in peak.groups) + peak.rest_count
        must(held == peak.peak_bytes == replay.peak.bytes == facts.peak_bytes, "groups and peak")
        live = replay.live_at(event=replay.peak.event_index)
        must(count == peak.live_count == len(live), "groups and allocations")
        must(peak.rest_bytes >= 0 and peak.rest_count >= 0, "groups of too large")
        if len(peak.groups) == peak.groups_total:
            must(peak.rest_bytes == peak.rest_count == 0, "a rest beside all groups")
        must(sum(facts.actions.values()) == facts.events, "events by action")
        must(facts.reserved_bytes >= 0 and facts.active_bytes >= 0, "sums below zero")
        analyse_replay(replay)
    look_up(snap)
    if dice % 16 == 3:
        ask(snap, dice // 16)
    if dice % 32 == 2:
        for width in (20, 80):
            render_plain(peak_document(report), width=width)
            render_plain(summary_document(summary), width=width)
        json.loads(render_json(report))
        json.loads(render_json(summary, indent=None))


def analyse_replay(replay: mr.Replay) -> None:
    usage = replay.usage
    must(len(usage) == replay.events, "a usage for each event")
    at = replay.peak.event_index - replay.first_event
    must(-1 <= at < max(1, replay.events), "a peak at no event")
    must(replay.peak.bytes == max([replay.carried_over_bytes, *usage.tolist()]), "usage and peak")
    must(
        replay.peak.bytes == (replay.carried_over_bytes if at < 0 else usage[at]), "peak and event"
    )
    must(replay.end_bytes == (usage[-1] if len(usage) else replay.carried_over_bytes), "the end")
    must(
        replay.carried_over_bytes >= 0 and (not len(usage) or usage.min() >= 0), "usage below zero"
    )
    lives = replay.lifetimes
    for event in (replay.start, replay.peak.event_index, replay.start + replay.events):
        live = replay.live_at(event=event)
        row = event - replay.first_event
        must(
            live.bytes == (replay.carried_over_bytes if row < 0 else usage[row]), "a live set's sum"
        )
        begun = lives.alloc_event <= event
        ended = (lives.free_event >= 0) & (lives.free_event <= event)
        must(len(live) == (begun & ~ended).sum(), "lifetimes and a live set")
    analyse_measures(replay)


def analyse_measures(replay: mr.Replay) -> None:
    """Check the other measures: the sums of live sets and of their parts equal the series."""
    names: tuple[MeasureName, ...] = ("held", "active", "allocated")
    for name in names:
        usage = replay.measure(name)
        series = usage.series
        must(usage.peak.bytes == max([usage.start_bytes, *series.tolist()]), "a measure's peak")
        for event in (replay.start, usage.peak.event_index, replay.start + replay.events):
            row = event - replay.first_event
            there = usage.start_bytes if row < 0 else int(series[row])
            must(usage.live_at(event=event).bytes == there, "a measure's live set")
    event = replay.start + replay.events // 2
    names = ("requested", "reserved")
    for name in names:
        usage = replay.measure(name)
        row = event - replay.first_event
        there = usage.start_bytes if row < 0 else int(usage.series[row])
        for by in ("pool", "stream"):
            parts = usage.parts(by, event)
            must((sum(p.bytes for p in parts) - there) % 2**64 == 0, "parts of a measure")


def look_up(snap: mr.Snapshot) -> None:
    """Check that every id in a column exists."""
    events = snap.events
    for i in range(min(len(events), 20)):
        snap.action_name(int(events.action[i]))
        snap.stack(int(events.stack[i]))
        snap.pool_id(int(events.pool[i]))
        snap.metadata(int(events.compile_context[i]))
        snap.metadata(int(events.user_metadata[i]))
    must(len(events.device) == len(events), "a device for each event")
    blocks, segments, annotations = snap.blocks, snap.segments, snap.annotations
    if len(blocks):
        must(blocks.segment.max() < len(segments), "a block of no segment")
        must(blocks.stack.max() < len(snap.stacks), "a block's stack")
    for i in range(min(len(annotations), 20)):
        snap.text(int(annotations.name[i]))
    offsets = snap.stacks.offsets
    must(offsets[-1] == len(snap.stacks.frames), "stacks and their frames")
    if len(snap.stacks.frames):
        must(snap.stacks.frames.max() < len(snap.frames), "a frame that is not there")


# ---- ranges --------------------------------------------------------------------------------------


def check_range(data: bytes | str, whole: mr.Snapshot, dice: int, *, salvage: bool = False) -> None:
    """Check that a range has the same numbers as the whole."""
    dice //= 64
    most = max((count for _, _, _, count in whole.native.traces()), default=0)
    first = dice % (most + 2)
    last = first + dice // 16 % (most + 3 - first)
    if dice % 4 == 0:
        kind = ("elapsed", "time")[dice // 4 % 2]
        start = Moment(kind, dice % 64)  # type: ignore[arg-type]
        part = ranged(data, whole, start=start, stop=last, salvage=salvage)
        if part is not None:
            analyse(part, dice)
        return
    only = whole.devices[dice % len(whole.devices)] if whole.devices and dice % 4 == 1 else None
    if only is not None and only < 0:
        return  # segments may have device -1, but that can't be selected
    part = ranged(data, whole, start=first, stop=last, device=only, salvage=salvage)
    if part is None:
        return
    analyse(part, dice)
    if dice % 4 == 3:
        written(None, part, dice // 4)
    for device in part.devices[:DEVICES]:
        of_whole, of_part = whole.replay(device), part.replay(device)
        begin, end = min(first, of_whole.events), min(last, of_whole.events)
        must(of_part.events == max(0, end - begin), "events of a range")
        if of_part.events:
            before = of_whole.usage[begin - 1] if begin else of_whole.carried_over_bytes
            must(of_part.carried_over_bytes == before, "a range's carried")
            must((of_part.usage == of_whole.usage[begin:end]).all(), "a range's usage")


def ranged(data: bytes | str, whole: mr.Snapshot, **how: Any) -> mr.Snapshot | None:
    try:
        part = attempt(data, **how)
    except mr.UsageError:
        must(isinstance(how["start"], Moment) or not whole.devices, "a range that may be asked for")
        return None
    if isinstance(part, mr.SnapshotError) and "in the trace twice" in str(part):
        return None  # known limitation: a dropped event can't be copied
    must(not isinstance(part, mr.SnapshotError), f"a range in what can be read: {part!r}")
    assert isinstance(part, mr.Snapshot)
    return part


# ---- the same input at another position in the reader's window -----------------------------------


def check_window_edge(data: bytes, whole: Any, dice: int) -> None:
    """Check that the result is the same if the reader's window ends inside the input."""
    before = WINDOW - dice // 32 % min(max(len(data), 1), WINDOW // 2)
    first = 2 if data[:1] == b"\x80" else 1  # bytes that must stay first
    if data[:1] == b"\x80" and len(data) > 2:
        # BINBYTES, four bytes of length, the bytes, POP.
        padding = b"B" + (before - 8).to_bytes(4, "little") + bytes(before - 8) + b"0"
        moved = attempt(data[:first] + padding + data[first:])
    elif data[:1] in (b"{", b"["):
        padding = b" " * before
        moved = attempt(data[:first] + padding + data[first:])
    else:
        return
    if isinstance(whole, mr.LimitError) or isinstance(moved, mr.LimitError):
        return  # limits apply to all bytes read, so padding counts
    if isinstance(whole, mr.SnapshotError) and isinstance(moved, mr.SnapshotError):
        place = whole.offset
        if place is not None and place >= first:
            place += len(padding)
        if "not a memory snapshot, but" in str(whole):
            return  # the input begins like another format, and the padding changes that
        must(
            (whole.message, place, whole.opcode) == (moved.message, moved.offset, moved.opcode),
            f"an error at the window's edge: {whole} and {moved}",
        )
        return
    must(same(whole, moved), f"a window's edge makes {moved!r} of {whole!r}")


def same(one: Any, other: Any) -> bool:
    if isinstance(one, mr.SnapshotError) or isinstance(other, mr.SnapshotError):
        return type(one) is type(other)
    return contents(one) == contents(other)


def contents(snap: mr.Snapshot) -> list[Any]:
    """Return everything that was read, as plain data."""
    tables = {
        snap.events: "action address size stream time_us stack compile_context user_metadata pool",
        snap.segments: "device address total_size",
        snap.blocks: "segment address size requested_size state stack",
        snap.frames: "function file line",
        snap.annotations: "name time_us",
    }
    found: list[Any] = [
        getattr(table, name).tolist() for table, names in tables.items() for name in names.split()
    ]
    strings = [snap.native.string(i) for i in range(snap.native.n_strings)]
    return [*found, snap.stacks.frames.tolist(), strings, repr(snap.settings)]


def check_against_python(data: bytes, outcome: str) -> None:
    """For a few accepted inputs, compare the columns with Python's view of the pickle."""
    if outcome != "read" or len(data) > ORACLE_BYTES or is_packed(data) or data[:1] in b"{[ \n\t":
        return
    try:
        # Remove frames, because Python's unpickler takes unlimited memory for some nested frames.
        snapshot = oracle.load(build.unframe(data))
        if isinstance(snapshot, dict) and not snapshot.keys() & {"segments", "device_traces"}:
            return  # the oracle doesn't look for a snapshot inside other values
        devices = oracle.devices(snapshot)
        rows = [row for trace in oracle.columns(snapshot) for row in trace]
        for device in devices:
            oracle.replay(snapshot, device)
        if len(devices) > DEVICES or not is_known(snapshot, rows):
            return
    except Exception:  # the oracle only knows valid snapshots
        return
    try:
        assert_like_oracle(data, snapshot)
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise WrongError(f"not what Python reads, in {where.name}: {where.line}") from error


def is_known(snapshot: Any, rows: list[oracle.EventRow]) -> bool:
    """Return whether the oracle can judge this input.

    It can't if blocks with and without an address are mixed, if an action or a name is None, if a
    line number has 64 bits (signed in memreplay), or if metadata isn't valid JSON.
    """
    segments = snapshot if isinstance(snapshot, list) else snapshot.get("segments", [])
    blocks = [block for segment in segments for block in segment.get("blocks", [])]
    holders = [*blocks, *(past for block in blocks for past in block.get("history") or [])]
    stacks = [*(oracle.stack_of(holder) for holder in holders), *(row.frames for row in rows)]
    return (
        len({"address" in block for block in blocks}) < 2
        and all(
            type(name) is type(file) is str and -(2**63) <= line < 2**63
            for stack in stacks
            for name, file, line in stack
        )
        and all(type(row.action) is str for row in rows)
        and all(
            is_canonical(row.compile_context) and is_canonical(row.user_metadata) for row in rows
        )
    )


def is_canonical(value: Any) -> bool:
    """Return whether metadata survives JSON unchanged, as memreplay stores it."""
    if isinstance(value, list):
        return all(map(is_canonical, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_canonical(value[key]) for key in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str)
