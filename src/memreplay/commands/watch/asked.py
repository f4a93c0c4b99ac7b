"""What to follow and how, what is too much, and when to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

MOST_SECONDS = 10**9


def _seconds(least: float) -> Callable[[str], float]:
    """What reads so many seconds and more; no NaN."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number of seconds") from None
        if not least <= value <= MOST_SECONDS:
            raise UsageError(f"{value} is not between {least:g} and {MOST_SECONDS:,}")
        return value

    return parse


class WatchOptions(Options, frozen=True):
    """What to follow and how, what is too much, and when to end."""

    folders: tuple[str, ...] = ()
    as_json: bool = False
    recursive: Annotated[
        bool,
        Opt(
            "Follow all folders below it; by default those in it (rank0/, iteration_100/), while it"
            " has no snapshot itself.",
            short="-r",
            brief="Follow all folders below it.",
        ),
    ] = False
    new: Annotated[bool, Opt("Leave out what is there already.")] = False
    max_peak: Annotated[
        int | None,
        Opt(
            "Mark what has a peak (of --measure) above this (38GiB).",
            "SIZE",
            parse=parse_size,
            brief="Mark what has a peak above this (38GiB).",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Mark what has a peak of reserved memory above this.",
            "SIZE",
            parse=parse_size,
            brief="Mark what has more reserved at its peak.",
        ),
    ] = None
    bell: Annotated[bool, Opt("Ring the terminal's bell at what is past a limit.")] = False
    until_over: Annotated[bool, Opt("End at the first that is past a limit.")] = False
    count: Annotated[int | None, Opt("End after so many snapshots.", "N", least=1)] = None
    timeout: Annotated[float | None, Opt("End after so long.", "SECONDS", parse=_seconds(0))] = None
    once: Annotated[bool, Opt("List what is there, and end.")] = False
    every: Annotated[
        float, Opt("How often to look for new files.", "SECONDS", parse=_seconds(0.01), rare=True)
    ] = 1.0
    settle: Annotated[
        float,
        Opt(
            "Read a file once it has been unchanged for so long.",
            "SECONDS",
            parse=_seconds(0),
            rare=True,
        ),
    ] = 2.0

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_peak is not None or self.max_reserved is not None
