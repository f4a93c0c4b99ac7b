"""Reads a size in bytes as people write it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[int]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = r"(\d{1,18}(?:\.\d{0,9})?) ?([KMGT]?)(?:iB|B)?"


class SizeType(_ParamType):
    """`80GiB`, `64K`, `1.5 GiB`, `4096`: units are powers of 1,024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes; a usage error where the text is no size."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(_SIZE, str(value).strip(), re.IGNORECASE)
        if match is None:
            self.fail(
                f"{value!r} is no size: give bytes, or a number with KiB, MiB, GiB", param, ctx
            )
        from decimal import Decimal

        size = int(Decimal(match[1]) * (1 << _POWERS[match[2].upper()]))
        if size >= 2**62:
            self.fail(f"{value!r} is more than there is", param, ctx)
        return size
