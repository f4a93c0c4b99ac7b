"""The options of `memreplay watch`: folders, limits, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.declared import Opt, Options, Shared
from memreplay.errors import UsageError

MOST_SECONDS = 10**9


def _seconds(least: float) -> Callable[[str], float]:
    """Return a parser for seconds with a minimum. The parser rejects NaN."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number of seconds") from None
        if not least <= value <= MOST_SECONDS:
            raise UsageError(f"{value} is not between {least:g} and {MOST_SECONDS:,}")
        return value

    return parse


UNTIL = Shared("--until", "Stop on a condition; repeat it to stop at the first of several")


class WatchOptions(Options, frozen=True):
    """Options for what to follow, the limits, and when to stop."""

    folders: tuple[str, ...] = ()
    as_json: bool = False
    recursive: Annotated[
        bool,
        Opt(
            "Follow DIR's whole tree. Default: DIR, or its direct subfolders (rank0/,"
            " iteration_100/) while it has no snapshots itself.",
            short="-r",
            brief="Follow DIR's whole tree.",
        ),
    ] = False
    new: Annotated[
        bool,
        Opt("those written after watch starts", of=Shared("--only", "List only some snapshots")),
    ] = False
    max_peak: Annotated[
        int | None,
        Opt(
            "Mark snapshots with a peak (of --measure) above this size, such as 38GiB.",
            "SIZE",
            parse=parse_size,
            brief="Mark peaks above this size, such as 38GiB.",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Mark snapshots with peak reserved memory above this.",
            "SIZE",
            parse=parse_size,
        ),
    ] = None
    over: Annotated[bool, Opt("a snapshot exceeds a limit", of=UNTIL)] = False
    count: Annotated[int | None, Opt("N snapshots have been listed", "N", least=1, of=UNTIL)] = None
    timeout: Annotated[
        float | None, Opt("this much time has passed", "SECONDS", parse=_seconds(0), of=UNTIL)
    ] = None
    now: Annotated[bool, Opt("all existing snapshots have been listed", of=UNTIL)] = False
    interval: Annotated[
        float,
        Opt(
            "How often to look for new files. A file is read once it has been unchanged for twice"
            " as long.",
            "SECONDS",
            parse=_seconds(0.01),
            brief="How often to look for new files.",
            rare=True,
        ),
    ] = 1.0
    live: Annotated[
        bool,
        Opt(
            "Show who uses the cards now, and the recordings that run on this machine, every second"
            " until q is pressed.",
            brief="Show who uses the cards now.",
        ),
    ] = False
    once: Annotated[
        bool,
        Opt(
            "With --live: print this once instead, as it also does with --json, or if stdout isn't"
            " a terminal.",
            brief="With --live: print once, and exit.",
        ),
    ] = False

    @property
    def settle(self) -> float:
        """Seconds for which a file has to be unchanged before it's read."""
        return 2 * self.interval

    @property
    def follows(self) -> bool:
        """Whether an option is given that needs a folder."""
        of_live = replace(self, folders=(), as_json=False, live=False, once=False)
        return bool(self.folders) or of_live != WatchOptions()

    @property
    def limited(self) -> bool:
        """Whether any limit is set."""
        return self.max_peak is not None or self.max_reserved is not None
