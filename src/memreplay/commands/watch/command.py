"""`memreplay watch`: show the peak of each of a run's snapshots when it's written."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.output import write
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading
from memreplay.commands.watch.options import WatchOptions
from memreplay.commands.watch.running import Watch
from memreplay.errors import UsageError
from memreplay.width import terminal_width


@as_command(
    "watch",
    examples=(
        "memreplay watch run/",
        "memreplay watch run/ --only new --max-peak 70GiB",
        "memreplay watch run/ --until now",
        "memreplay watch -r dumps/ --measure held --max-reserved 76GiB --until over",
        "memreplay watch --live",
        "memreplay watch run/ --json --until count=10 | jq '.devices[].peak_bytes'",
    ),
    exits={1: "a snapshot exceeded a limit", 5: "--live found no card and no recording"},
    only={
        "selection": ("measure",),
        "reading": ("device", "limits", "config_file", "folders"),
    },
    rules=True,
)
def command(
    watched: Annotated[tuple[str, ...], Arg("[DIR]...", required=False)],
    options: WatchOptions,
    selection: Selection,
    reading: Reading,
    shown: Shown,
) -> int:
    """Follow each folder DIR in which a run writes snapshots (or one file per rank). List the
    existing ones, then wait and print a line for each new or rewritten snapshot once it's complete.
    Ctrl-C stops and prints a summary.

    With --live: show each card's memory, who uses it, and the recordings that run on this machine.
    Needs the 'nvml' extra to list cards, and the 'explore' extra to refresh.
    """
    asked = replace(options, folders=watched, as_json=shown.format == "json")
    if asked.live:
        return watch_live(asked)
    if asked.once:
        raise UsageError("--once needs --live; --until now lists a folder's existing snapshots")
    if not watched:
        raise UsageError("give the folder of a run, or --live to see the cards")
    if options.over and not options.limited:
        raise UsageError("--until over needs a limit; give --max-peak or --max-reserved")
    if options.now and options.new:
        raise UsageError(
            "--until now lists existing snapshots, and --only new leaves them out; give one of them"
        )
    for folder in watched:
        if "://" in folder:
            raise UsageError(f"{folder}: only local folders can be watched")
        if os.path.isfile(folder):
            raise UsageError(f"{folder!r} is a file; give its folder")
    return Watch(asked, reading, selection).run()


def watch_live(asked: WatchOptions) -> int:
    """Show who uses the cards now: on a terminal every second, else once."""
    # imported late, because folders are watched without it
    from memreplay.explore.terminal import chars_of, check_textual
    from memreplay.live.cards import Driver
    from memreplay.live.find import checked, live_report
    from memreplay.live.text import Drawn, live_document

    if asked.follows:
        raise UsageError("--live shows the cards; it takes only --once and --json")
    driver = Driver()
    report = checked(live_report(driver))
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if asked.as_json or asked.once or not on_terminal:
        drawn = Drawn(terminal_width(), plain=chars_of("auto") == "ascii")
        shown = Shown("json" if asked.as_json else "text")
        write(text_of(report, shown, live_document, drawn=drawn))
        return 0
    check_textual("watch --live needs Textual to refresh (or --once)")
    from memreplay.live.app import live

    return live(driver, report)
