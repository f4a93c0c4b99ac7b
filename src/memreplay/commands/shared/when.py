"""Reads the moment that a question is about: `peak`, `end`, an event, a time, an annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.model import When

    _ParamType = click.ParamType[When]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only


class WhenType(_ParamType):
    """A moment, as `parse_when` reads it."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> When:
        """The moment; a usage error where the text is none."""
        from memreplay.analysis.selecting.parsing import parse_when  # late: few name a moment
        from memreplay.snapshot.model import When

        if isinstance(value, When):
            return value
        try:
            return parse_when(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
