"""Reads an amount of memory as people write it: `80GiB`, `24GB`, `85899345920`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[int]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_MEMORY = r"(\d{1,15}(?:\.\d{1,9})?) ?(?:([KMGT])(i?)B?|B)?"
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


class MemoryType(_ParamType):
    """Bytes: KiB, MiB, GiB, TiB (also K, M, G, T) are powers of 1,024, KB to TB of 1,000."""

    name = "memory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes; a usage error where the text is no amount."""
        from decimal import Decimal

        if isinstance(value, int):
            return value
        text = str(value).strip()
        match = re.fullmatch(_MEMORY, text)
        if match is None:
            self.fail(f"{text!r} is no amount of memory: give 80GiB, 24GB or bytes", param, ctx)
        unit, binary = match[2], match[3]
        decimal = bool(unit) and not binary and text.endswith("B")
        scale = (1000 if decimal else 1024) ** _POWERS[unit] if unit else 1
        found = int(Decimal(match[1]) * scale)
        if not 0 < found < 2**62:
            self.fail(f"{text!r} is no card's memory", param, ctx)
        return found
