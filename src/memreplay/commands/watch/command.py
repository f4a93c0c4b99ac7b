"""`memreplay watch`: the peak of each snapshot of a run, as it is written."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.showing import Shown
from memreplay.commands.shared.source import Reading
from memreplay.commands.watch.asked import WatchOptions
from memreplay.commands.watch.running import Watch
from memreplay.errors import UsageError


@as_command(
    "watch",
    examples=(
        "memreplay watch run/",
        "memreplay watch run/ --new --max-peak 70GiB",
        "memreplay watch run/ --once",
        "memreplay watch -r dumps/ --measure held --max-reserved 76GiB --until-over",
        "memreplay watch run/ --json --count 10 | jq '.devices[].peak_bytes'",
    ),
    exits={1: "a snapshot was past a limit"},
    only={
        "selection": ("measure",),
        "reading": ("device", "limits", "config_file", "no_config", "folders"),
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
    """Follows each folder DIR in which a run writes snapshots, or one file a rank: lists what is
    there, then waits, and writes a line for each snapshot that is new or rewritten, once it is
    whole. Ctrl-C ends it, with a line that sums it up.
    """
    for option, given in (("--until-over", options.until_over), ("--bell", options.bell)):
        if given and not options.limited:
            raise UsageError(f"{option} needs a limit: give --max-peak or --max-reserved")
    if options.once and options.new:
        raise UsageError("--once lists what is there, and --new leaves it out: give one of them")
    for folder in watched:
        if "://" in folder:
            raise UsageError(f"{folder}: only folders of this machine can be watched")
        if os.path.isfile(folder):
            raise UsageError(f"{folder!r} is a file: name the folder that it is in")
    asked = replace(options, folders=watched, as_json=shown.format == "json")
    return Watch(asked, reading, selection).run()
