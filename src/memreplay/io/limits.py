"""What a file may ask for."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """What a file may ask for before reading it ends in LimitError, whatever its size."""

    nesting_depth: int = 1_000
    """Containers open at once."""
    string_bytes: int = 64 << 20
    """Bytes of one string or bytes object, and of the window that holds it."""
    stack_values: int = 1 << 23
    """Values that wait for their container's end."""
    memo_entries: int = 1 << 30
    """Entries of the pickle memo."""
    kept_values: int = 1 << 22
    """Items of the settings and of metadata that is no text."""
    rows: int = 1 << 27
    """Rows of one kind (events, segments, blocks, annotations, frame dicts and frames lists); never
    more than the default."""
    devices: int = 1_024
    """Traces; the devices of segments count from 0 to below it."""
    decompression_ratio: int = 250
    """Plain bytes out of one compressed byte, where more than 64 MiB came out (real snapshots: 16
    to 17)."""

    def numbers(self) -> tuple[int, int, int, int, int, int, int]:
        """Those that the native reader checks, in the order in which it takes them."""
        return (
            self.nesting_depth,
            self.string_bytes,
            self.stack_values,
            self.memo_entries,
            self.kept_values,
            self.rows,
            self.devices,
        )
