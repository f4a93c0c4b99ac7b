"""Reads a moment as people write it: an event, a time since the start, a point in time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memreplay.snapshot.model import Moment

    _ParamType = click.ParamType[Moment]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
# Compiled when a moment is read: most commands are given none.
_EVENT = r"\d{1,15}"
_ELAPSED = r"\+?(\d{1,12}(?:\.\d*)?|\.\d+)(us|ms|s|min|h)"
_EPOCH_START = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH = r"@(-?\d{1,12}(?:\.\d*)?)"


class MomentType(_ParamType):
    """`1200`, `1.5s`, `300ms`, `@1768990500.25` (since the epoch), `2026-01-21T10:15:00`."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Moment:
        """The moment; a usage error where the text is none."""
        from decimal import Decimal

        from memreplay.snapshot.model import Moment

        if isinstance(value, Moment):
            return value
        text = str(value).strip()
        if re.fullmatch(_EVENT, text):
            return Moment("event", int(text))
        if match := re.fullmatch(_ELAPSED, text):
            return Moment("elapsed", int(Decimal(match[1]) * _UNITS[match[2]]))
        if match := re.fullmatch(_EPOCH, text):
            return Moment("time", int(Decimal(match[1]) * 1_000_000))
        try:
            at = datetime.fromisoformat(text.removesuffix("Z"))
        except ValueError:
            self.fail(
                f"{text!r} is not a moment: give an event (1200), a time since the start (1.5s,"
                " 300ms), @SECONDS since the epoch, or a UTC time (2026-01-21T10:15:00)",
                param,
                ctx,
            )
        if at.tzinfo is None:
            at = at.replace(tzinfo=timezone.utc)
        return Moment("time", (at - _EPOCH_START) // timedelta(microseconds=1))
