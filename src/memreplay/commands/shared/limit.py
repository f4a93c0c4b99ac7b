"""Reads `--limit NAME=N`: what a file may ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[tuple[str, int]]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

# The fields of model.Limits; spelled here so that --help imports nothing. A test compares the two.
NAMES = (
    "nesting_depth",
    "string_bytes",
    "stack_values",
    "memo_entries",
    "kept_values",
    "rows",
    "devices",
    "decompression_ratio",
)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMIT = r"(\w+)=(\d{1,18})([KMG]?)"


class LimitType(_ParamType):
    """`string_bytes=128M`: a limit's name and its new value, with K, M or G for powers of 1,024."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Name and value; a usage error where there is no such limit or no such number."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(_LIMIT, str(value))
        if match is None or match[1] not in NAMES:
            self.fail(
                f"{value!r} is not a limit: give NAME=N with one of {', '.join(NAMES)}", param, ctx
            )
        number = int(match[2]) * _UNITS[match[3]]
        if not 0 < number < 2**63:
            self.fail(f"{value!r}: a limit is a number from 1 to 2**63 - 1", param, ctx)
        return match[1], number
