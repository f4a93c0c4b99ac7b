"""Write tracks in Chrome's trace-event format: counters, slices and marks as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.export.viewers import digits
from memreplay.export.viewers.stack_names import measure_name, process_name
from memreplay.render.strict_json import to_json

if TYPE_CHECKING:
    from memreplay.export.viewers.records import DeviceTracks, TraceReport, Track


def render_chrome(report: TraceReport) -> Iterator[bytes]:
    """Yield the JSON object in chunks, an event per line.

    `ts` counts microseconds since `otherData.origin_us`. Each device is a process with id device +
    1.
    """
    yield b'{"displayTimeUnit":"ms","otherData":'
    yield _json(
        {
            "exporter": "memreplay",
            "file": report.file,
            "origin_us": report.origin_us,
            "truncated": report.truncated,
        }
    )
    yield b',"traceEvents":[\n'
    first = True
    for device in report.devices:
        for part in _events(device):
            yield part if first else b",\n" + part
            first = False
    yield b"\n]}\n"


def _json(value: object) -> bytes:
    # Don't escape non-ASCII letters, because Perfetto shows escape sequences in names literally.
    # Only lone surrogates are escaped, because UTF-8 can't encode them.
    found = to_json(value, indent=None, ascii_only=False)
    return found.encode("utf-8", "backslashreplace")


def _events(device: DeviceTracks) -> Iterator[bytes]:
    """Yield one or more events, without a newline after the last."""
    pid = device.device + 1
    named = {"name": process_name(device.device)}
    yield _json({"ph": "M", "pid": pid, "name": "process_name", "args": named})
    for track in device.tracks:
        yield from _counters(track, pid)
    for tid, lane in enumerate(device.lanes, 1):
        named = {"name": "annotations"}
        yield _json({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": named})
        for one in lane:
            yield _json(
                {
                    "ph": "X",
                    "pid": pid,
                    "tid": tid,
                    "name": one.name,
                    "cat": "annotation",
                    "ts": one.begin_ns / 1000,
                    "dur": (one.end_ns - one.begin_ns) / 1000,
                    "args": {"end": "not in the file"} if one.open_end else {},
                }
            )
    for mark in device.marks:
        args = {"event": mark.event_index}
        if mark.bytes is not None:
            args["bytes"] = mark.bytes
        yield _json(
            {
                "ph": "i",
                "pid": pid,
                "tid": 0,
                "name": mark.name,
                "cat": "mark",
                "ts": mark.at_ns / 1000,
                "s": "p",
                "args": args,
            }
        )


def _counters(track: Track, pid: int) -> Iterator[bytes]:
    """Yield all values, in batches."""
    name = measure_name(track.measure, track.pool)
    if track.exactness != "exact":
        name += " (estimated)"
    head = b'{"ph":"C","pid":%d,"name":%s,"ts":' % (pid, _json(name))
    for first in range(0, len(track.bytes), digits.ROWS):
        at = track.at_ns[first : first + digits.ROWS]
        values = track.bytes[first : first + digits.ROWS]
        whole = at // 1000
        parts = (
            head,
            digits.decimal(whole),
            digits.fraction(at - whole * 1000),
            b',"args":{"bytes":',
            digits.decimal(values),
            b"}},\n",
        )
        yield digits.lines(len(at), parts)[:-2]
