"""Reads which rank's groups to show: its number, or `worst`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType["int | str"]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

WORST = "worst"


class RankType(_ParamType):
    """`12`, or `worst`: the rank that is highest in the new run."""

    name = "rank"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The rank; a usage error where the text is none."""
        text = str(value).strip()
        if text == WORST:
            return WORST
        if not re.fullmatch(r"[0-9]{1,9}", text):
            self.fail(f"{text!r} is not a rank: give its number, or {WORST}", param, ctx)
        return int(text)
