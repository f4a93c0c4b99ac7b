"""Reads a moment as people write it: an event, a time since the start, a point in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.model import Moment

    _ParamType = click.ParamType[Moment]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only


class MomentType(_ParamType):
    """A bound of a range, as `parse_moment` reads it."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Moment:
        """The moment; a usage error where the text is none."""
        from memreplay.analysis.selecting.parsing import parse_moment  # late: few name a moment
        from memreplay.snapshot.model import Moment

        if isinstance(value, Moment):
            return value
        try:
            return parse_moment(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
