"""`memreplay watch`: show the peak of each of a run's snapshots when it's written."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.showing import Shown
from memreplay.commands.shared.source import Reading
from memreplay.commands.watch.options import WatchOptions
from memreplay.commands.watch.running import Watch
from memreplay.errors import UsageError


@as_command(
    "watch",
    examples=(
        "memreplay watch run/",
        "memreplay watch run/ --only new --max-peak 70GiB",
        "memreplay watch run/ --until now",
        "memreplay watch -r dumps/ --measure held --max-reserved 76GiB --until over",
        "memreplay watch run/ --json --until count=10 | jq '.devices[].peak_bytes'",
    ),
    exits={1: "a snapshot exceeded a limit"},
    only={
        "selection": ("measure",),
        "reading": ("device", "limits", "config_file", "folders"),
    },
    rules=True,
)
def command(
    watched: Annotated[tuple[str, ...], Arg("DIR...")],
    options: WatchOptions,
    selection: Selection,
    reading: Reading,
    shown: Shown,
) -> int:
    """Follow each folder DIR in which a run writes snapshots (or one file per rank). List the
    existing ones, then wait and print a line for each new or rewritten snapshot once it's complete.
    Ctrl-C stops and prints a summary.
    """
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
    asked = replace(options, folders=watched, as_json=shown.format == "json")
    return Watch(asked, reading, selection).run()
