"""Reads the moment that a question is about: `peak`, `end`, an event, a time, an annotation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from memreplay.commands.shared.moment import MomentType

if TYPE_CHECKING:
    from memreplay.snapshot.model import When

    _ParamType = click.ParamType[When]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_EDGES = ("start", "end", "peak")


class WhenType(_ParamType):
    """`peak`, `peak:2`, `start`, `end`, `1200`, `1.5s`, `@SECONDS`, a UTC time, or an annotation:
    `NAME`, `NAME#k`, each with `:end` or `:peak` where it is not its start that is meant."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> When:
        """The moment; a usage error where the text is none."""
        from memreplay.snapshot.model import When

        if isinstance(value, When):
            return value
        text = str(value).strip()
        if text in ("start", "end"):
            return When("end" if text == "end" else "start")
        if match := re.fullmatch(r"peak(?::(\d{1,9}))?", text):
            return When("peak", int(match[1] or 1))
        if re.match(r"[\d@+.-]", text) or not text:
            moment = MomentType().convert(text, param, ctx)
            return When(moment.kind, moment.value)
        return annotation(text)


def annotation(text: str) -> When:
    """`NAME`, `NAME#k`, `NAME:end`: where it begins unless it is said."""
    from memreplay.snapshot.model import When

    name, _, edge = text.rpartition(":")
    if name and edge in _EDGES:
        return When("annotation", name=name, edge=edge)  # type: ignore[arg-type]
    return When("annotation", name=text)
