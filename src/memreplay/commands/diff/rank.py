"""Parse which rank's groups to show: a number or `worst`."""

from __future__ import annotations

import re
from typing import Annotated

from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

WORST = "worst"


def parse_rank(text: str) -> int | str:
    """Parse a rank's number, or `worst`, which is the new run's rank with the highest peak."""
    text = text.strip()
    if text == WORST:
        return WORST
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"{text!r} is not a rank; give its number, or {WORST}")
    return int(text)


class OfRank(Options, frozen=True):
    """Option for which rank to show if two folders are compared."""

    rank: Annotated[
        int | str | None,
        Opt(
            "With two folders: show the groups of this rank, or of the rank with the highest peak"
            " in NEW (worst). Default: the rank that grew most.",
            "N|worst",
            parse=parse_rank,
            group="Options",
            brief="With two folders: show the groups of this rank.",
        ),
    ] = None
