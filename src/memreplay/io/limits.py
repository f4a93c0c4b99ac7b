"""What a file may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    pass


class Limits(Record, frozen=True):
    """What a file may ask for before reading it ends in LimitError, whatever its size.

    `nesting_depth`: containers open at once. `string_bytes`: of one string or bytes object, and of
    the window that holds it. `stack_values`: values that wait for their container's end.
    `memo_entries`: entries of the pickle memo. `kept_values`: items of the settings and of metadata
    that is no text. `rows`: of one kind (events, segments, blocks, annotations, frame dicts and
    frames lists); never more than the default. `devices`: traces; the devices of segments count
    from 0 to below it. `decompression_ratio`: plain bytes out of one compressed byte, where more
    than 64 MiB came out (real snapshots: 16 to 17).
    """

    nesting_depth: int = 1_000
    string_bytes: int = 64 << 20
    stack_values: int = 1 << 23
    memo_entries: int = 1 << 30
    kept_values: int = 1 << 22
    rows: int = 1 << 27
    devices: int = 1_024
    decompression_ratio: int = 250
