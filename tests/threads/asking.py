"""All queries that the public API offers on a snapshot, with comparable results."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

import memreplay as mr
from memreplay.analysis.groups.ways import WAYS
from memreplay.commands.export.lines import render_dump
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.model import MEASURES, MeasureName
from memreplay.snapshot.record import Arrays

T = TypeVar("T")
Question = Callable[[mr.Snapshot], Any]

THREADS = 16
PATIENCE_S = 120.0

TABLES = ("events", "ooms", "stacks", "frames", "segments", "blocks", "annotations")
REPORTS = (
    "allocations",
    "baseline",
    "fragmentation",
    "leaks",
    "modules",
    "oom",
    "peak",
    "report",
    "segments",
    "simulate",
    "steps",
    "summary",
    "timeline",
)


def digest(pieces: Iterable[bytes]) -> str:
    """Return a hash, to compare large byte strings."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def told(ask: Callable[[], Any]) -> Any:
    """Return a query's result or its one-line error, which must also be the same in all threads."""
    try:
        return ask()
    except mr.MemreplayError as error:
        return f"{type(error).__name__}: {error}"


def _column(name: str, table: str, snap: mr.Snapshot) -> str:
    column = getattr(getattr(snap, table), name)
    return digest([str(column.dtype).encode(), np.ascontiguousarray(column).tobytes()])


def column_names(kind: type) -> list[str]:
    """Return the names of a table's own columns, without the columns that every table has."""
    return [name for name in dir(kind) if not name.startswith("_") and name not in dir(Arrays)]


def _columns() -> dict[str, Question]:
    from memreplay.snapshot import columns

    found: dict[str, Question] = {}
    for table in TABLES:
        for name in column_names(getattr(columns, table.capitalize())):
            found[f"{table}.{name}"] = partial(_column, name, table)
    return found


def _facts(snap: mr.Snapshot) -> Any:
    return (
        snap.devices,
        snap.protocol,
        snap.stream_bytes,
        snap.settings,
        sorted(snap.traits),
        snap.recorded is None,
        snap.recorded_flaw,
        snap.kept("overflowed"),
        [snap.trace_events(device) for device in snap.devices],
    )


def _texts(snap: mr.Snapshot) -> Any:
    return [snap.text(i) for i in range(snap.native.n_strings)]


def _stacks(snap: mr.Snapshot) -> Any:
    return [snap.stack(i) for i in range(len(snap.stacks))]


def _usage(name: MeasureName, snap: mr.Snapshot) -> Any:
    found = []
    for device in snap.devices:
        usage = snap.replay(device).measure(name)
        last = usage.replay.start + usage.replay.events
        moments = (usage.replay.start, last // 3, last // 2, last)
        found.append(
            (
                usage.start_bytes,
                usage.end_bytes,
                usage.peak,
                usage.minimum,
                usage.mean_bytes,
                usage.peaks(5),
                usage.reconciliation_bytes,
                [usage.bytes_at(event) for event in moments],
                usage.parts("pool", last // 2),
                usage.parts("stream", last // 2),
                usage.ranges([usage.replay.first_event, last // 2, last]),
                digest([usage.series.tobytes()]),
            )
        )
    return found


def _lives(name: MeasureName, snap: mr.Snapshot) -> Any:
    found = []
    for device in snap.devices:
        usage = snap.replay(device).measure(name)
        last = usage.replay.start + usage.replay.events
        found.append(digest(_bytes_of(usage.lifetimes)))
        found += [digest(_bytes_of(usage.live_at(event=at))) for at in (last // 3, last // 2, last)]
    return found


def _bytes_of(lives: mr.Lifetimes | mr.LiveSet) -> list[bytes]:
    return [column.tobytes() for column in (lives.address, lives.size, lives.stack)]


def _alone(by: str, snap: mr.Snapshot) -> Any:
    replay = snap.replay()
    parts = replay.measure("active").parts(by, replay.measure("active").peak.event_index)
    return [replay.measure("active", **{by: getattr(part, by)}).peak for part in parts[:4]]


def _trace(snap: mr.Snapshot) -> Any:
    found = []
    for device in snap.devices:
        trace = snap.replay(device)
        changes = trace.segment_changes
        found.append(
            (
                trace.tally,
                trace.time_range,
                trace.oom_free,
                trace.soundness,
                trace.recorded.outcome,
                trace.recorded.reproduced,
                digest([bytes(changes.bytes), bytes(changes.pool)]),
                [trace.time_us(event) for event in (trace.start, trace.first_event)],
            )
        )
    return found


def _simulated(settings: str, snap: mr.Snapshot) -> Any:
    found = snap.replay().simulate(settings)
    return found.outcome, found.reasons, found.failed_events


def _retold(snap: mr.Snapshot) -> Any:
    device = snap.devices[0]
    again = mr.retold(snap, {device: snap.replay(device).simulate("expandable_segments:True")})
    return again.replay(device).measure("reserved").peak


def _report(name: str, snap: mr.Snapshot) -> Any:
    return mr.to_json(getattr(mr, name)(snap))


def _by(way: str, snap: mr.Snapshot) -> Any:
    return mr.to_json(mr.peak(snap, by=way, measure="active"))


def _dump(fmt: Any, snap: mr.Snapshot) -> str:
    return digest(render_dump(snap, fmt))


def _slice(snap: mr.Snapshot) -> str:
    sliced, pickled = cut(snap)
    return digest([mr.to_json(sliced).encode(), *pickled])


def _page(snap: mr.Snapshot) -> str:
    return digest([snap.view().html])


def _arrow(name: str, snap: mr.Snapshot) -> str:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    found = pa.RecordBatchReader.from_stream(mr.table(snap, name)).read_all()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found.combine_chunks())
    return digest([sink.getvalue().to_pybytes()])


def questions() -> dict[str, Question]:
    """Return all queries by name."""
    found: dict[str, Question] = {
        **_columns(),
        "facts": _facts,
        "texts": _texts,
        "stacks": _stacks,
        "trace": _trace,
        "retold": _retold,
        "slice": _slice,
        "page": _page,
        "baseline gate": lambda snap: mr.to_json(mr.gate(snap, base=mr.baseline(snap))),
        "at": lambda snap: mr.to_json(mr.at(snap, [mr.When("peak"), mr.When("end")])),
        "diff": lambda snap: mr.to_json(mr.diff(snap, snap)),
        "gate": lambda snap: mr.to_json(mr.gate(snap, max_peak="1GiB")),
    }
    for name in MEASURES:
        found[f"usage {name}"] = partial(_usage, name)
        if name != "reserved":
            found[f"lives {name}"] = partial(_lives, name)
    for by in ("pool", "stream"):
        found[f"alone by {by}"] = partial(_alone, by)
    for settings in ("", "expandable_segments:True", "max_split_size_mb:64"):
        found[f"simulated {settings}"] = partial(_simulated, settings)
    for report in REPORTS:
        found[f"report {report}"] = partial(_report, report)
    for way in WAYS:
        found[f"by {way}"] = partial(_by, way)
    for fmt in ("txt", "ndjson"):
        found[f"dump {fmt}"] = partial(_dump, fmt)
    if find_spec("pyarrow") is not None:
        for table in ("events", "allocations", "usage", "stacks", "segments"):
            found[f"table {table}"] = partial(_arrow, table)
    return found


def answers(snap: mr.Snapshot, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return one thread's results, with the queries run in this order."""
    every = questions()
    return {name: told(partial(every[name], snap)) for name in names or every}


def at_once(work: Sequence[Callable[[], T]]) -> list[T]:
    """Run each function in a separate thread. All start at the same moment, with the shortest
    switch interval.
    """
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[], T]) -> T:
        barrier.wait(PATIENCE_S)
        return one()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(work)) as pool:
            return [made.result(PATIENCE_S) for made in [pool.submit(run, one) for one in work]]
    finally:
        sys.setswitchinterval(before)
