"""Reads which rank's groups to show: its number, or `worst`."""

from __future__ import annotations

import re
from typing import Annotated

from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

WORST = "worst"


def parse_rank(text: str) -> int | str:
    """`12`, or `worst`: the rank that is highest in the new run."""
    text = text.strip()
    if text == WORST:
        return WORST
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"{text!r} is not a rank: give its number, or {WORST}")
    return int(text)


class OfRank(Options, frozen=True):
    """Of two folders, which rank."""

    rank: Annotated[
        int | str | None,
        Opt(
            "With two folders: show the groups of this rank, or of the rank that is highest in NEW"
            " (default: the rank that grew most).",
            "N|worst",
            parse=parse_rank,
            brief="With two folders: show the groups of this rank.",
        ),
    ] = None
