"""Writes out everything that was read of a snapshot, a line a row: as text, or as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from memreplay.errors import LimitError
from memreplay.render.strict_json import to_json
from memreplay.snapshot.json_values import json_safe

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

Format = Literal["text", "ndjson"]

# Real snapshots come out at one to three times their size. A file made for it can name one long
# text in every event, and would fill the disk.
MAX_RATIO = 100
FREE_BYTES = 64 << 20


def render_dump(snapshot: Snapshot, fmt: Format) -> Iterator[bytes]:
    """The lines in ASCII, about a MiB at a time: what is known of the file, then every row.

    Raises LimitError when they become more than 100 times as long as the snapshot, and long.
    """
    header = _header(snapshot)
    yield (to_json(header, indent=None) if fmt == "ndjson" else _words(header)).encode() + b"\n"
    left = FREE_BYTES + MAX_RATIO * snapshot.stream_bytes
    for lines in snapshot.native.dump(fmt == "ndjson"):
        left -= len(lines)
        if left < 0:
            raise LimitError(
                f"the dump is over {MAX_RATIO} times as long as the snapshot",
                hint="dump a part of it with --from and --to",
            )
        yield lines


def _header(snapshot: Snapshot) -> dict[str, object]:
    kept = {
        "allocator_settings": snapshot.kept("settings"),
        "trace_alloc_overflowed": snapshot.kept("overflowed"),
        "trace_alloc_max_entries": snapshot.kept("max_entries"),
    }
    return {
        "schema": "memreplay.dump/1",
        "file": snapshot.file,
        "file_bytes": snapshot.file_bytes,
        "stream_bytes": snapshot.stream_bytes,
        "container": snapshot.container,
        "protocol": snapshot.protocol,
        "truncated": snapshot.truncation is not None,
    } | {key: json_safe(value) for key, value in kept.items() if value is not None}


def _words(header: dict[str, object]) -> str:
    fields = (f"{key}={to_json(value, indent=None)}" for key, value in list(header.items())[1:])
    return " ".join(["snapshot", *fields])
