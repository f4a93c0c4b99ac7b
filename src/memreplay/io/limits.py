"""Limits on the resources that reading a file may use."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Limits on a file. Exceeding one raises LimitError."""

    nesting_depth: int = 1_000
    """Maximum depth of nested containers."""
    string_bytes: int = 64 << 20
    """Maximum size of a string or bytes object, and thus of the read window."""
    stack_values: int = 1 << 23
    """Maximum number of values on the unpickler's stack."""
    memo_entries: int = 1 << 30
    """Maximum number of entries in the pickle memo."""
    kept_values: int = 1 << 22
    """Maximum number of items in the settings and in metadata that isn't text."""
    rows: int = 1 << 27
    """Maximum number of rows of each kind (events, segments, blocks, annotations, frame dicts and
    frames lists).

    Values above the default have no effect.
    """
    devices: int = 1_024
    """Maximum number of traces. The device numbers of segments must be below this number, too."""
    decompression_ratio: int = 250
    """Maximum number of output bytes per compressed byte, checked once output exceeds 64 MiB. Real
    snapshots have ratios of 16 to 17.
    """

    def numbers(self) -> tuple[int, int, int, int, int, int, int]:
        """Return the limits that the native reader checks, in the order it expects."""
        return (
            self.nesting_depth,
            self.string_bytes,
            self.stack_values,
            self.memo_entries,
            self.kept_values,
            self.rows,
            self.devices,
        )
