"""Write everything that was read from a snapshot, one line per row, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from memreplay.commands.export.result import FileLine
from memreplay.engine.write import _dump
from memreplay.errors import LimitError
from memreplay.render.record_json import plain, render_json
from memreplay.render.strict_json import to_json
from memreplay.snapshot.json_values import json_safe

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

Format = Literal["txt", "ndjson"]

# For real snapshots, the lines are one to three times as long as the file. In a hostile snapshot,
# every event could refer to the same long string and fill the disk.
MAX_RATIO = 100
FREE_BYTES = 64 << 20


def render_dump(snapshot: Snapshot, fmt: Format) -> Iterator[bytes]:
    """Yield ASCII lines in chunks of about a MiB: facts about the file, then every row.

    Raises LimitError if the lines are long and exceed 100 times the snapshot's size.
    """
    first = _first_line(snapshot)
    text = render_json(first, indent=None) if fmt == "ndjson" else _words(first)
    yield text.encode() + b"\n"
    left = FREE_BYTES + MAX_RATIO * snapshot.stream_bytes
    for lines in _dump.dump(snapshot.native, fmt == "ndjson"):
        left -= len(lines)
        if left < 0:
            raise LimitError(
                f"the lines would be over {MAX_RATIO} times as long as the snapshot",
                hint="export a part with --from and --to",
            )
        yield lines


def _first_line(snapshot: Snapshot) -> FileLine:
    def kept(name: str) -> object:
        value = snapshot.kept(name)
        return UNSET if value is None else json_safe(value)

    return FileLine(
        file=snapshot.file,
        file_bytes=snapshot.file_bytes,
        stream_bytes=snapshot.stream_bytes,
        container=snapshot.container,
        protocol=snapshot.protocol,
        truncated=snapshot.truncation is not None,
        unknown_devices=snapshot.unknown_devices or UNSET,
        allocator_settings=kept("settings"),
        trace_alloc_overflowed=kept("overflowed"),
        trace_alloc_max_entries=kept("max_entries"),
        memreplay=kept("memreplay"),
    )


def _words(first: FileLine) -> str:
    values: dict[str, object] = plain(first)  # type: ignore[assignment]
    fields = (f"{key}={to_json(value, indent=None)}" for key, value in list(values.items())[1:])
    return " ".join(["snapshot", *fields])
