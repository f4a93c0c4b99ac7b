"""Reads a pool and a stream as people write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _PoolParam = click.ParamType[tuple[int, int]]
    _StreamParam = click.ParamType[int]
else:
    _PoolParam = _StreamParam = click.ParamType  # generic from click 8.4 on only

_POOL = r"\(?(\d{1,18})[:,] ?(\d{1,18})\)?"


class PoolType(_PoolParam):
    """`default`, `0:1`, or as a snapshot writes it `(0, 1)`."""

    name = "pool"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Its two numbers; a usage error where the text is none."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        if text == "default":
            return 0, 0
        match = re.fullmatch(_POOL, text)
        if match is None:
            self.fail(f"{text!r} is not a pool: give its two numbers (0:1), or default", param, ctx)
        return int(match[1]), int(match[2])


class StreamType(_StreamParam):
    """A stream's number, as a snapshot has it: decimal, or hexadecimal with 0x."""

    name = "stream"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a usage error where the text is none."""
        if isinstance(value, int):
            return value
        try:
            return int(str(value).strip(), 0)
        except ValueError:
            self.fail(f"{value!r} is not a stream: give its number (0, 0x55d2c0)", param, ctx)
