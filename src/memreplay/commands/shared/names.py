"""Names of the snapshots that a program writes, one per rank."""

from __future__ import annotations

import glob
import os

from memreplay.commands.shared.output import check_output
from memreplay.errors import UsageError
from memreplay.io.packing import FORMATS, PACKINGS, by_name


def check_names(output: str, *, force: bool) -> None:
    """Raise UsageError for an unsuitable output. Called before the program runs."""
    if output == "-" or not os.path.basename(output):
        raise UsageError(
            f"cannot write {output}: give a file name, because stdout belongs to the program"
        )
    check_output(output, force=force, binary=True)
    if os.path.exists(output) and not os.path.isfile(output):
        raise UsageError(f"cannot write {output}: it isn't a file")
    if by_name(output)[0] == "json":
        raise UsageError(
            f"{output}: snapshots are pickles; end the name in .pickle (memreplay export"
            " converts to JSON)"
        )
    stem, ending = split(output)
    there = glob.glob(f"{glob.escape(stem)}.rank*{glob.escape(ending)}")
    if there and not force:
        raise UsageError(f"{min(there)} already exists; give --force to replace it")


def split(path: str) -> tuple[str, str]:
    """Split `run.pickle.gz` into `run` and `.pickle.gz`."""
    folder, name = os.path.split(path)
    ending = ""
    for known in (PACKINGS, FORMATS):
        end = next((one for one in known if name.lower().endswith(one)), "")
        if end:
            ending = name[-len(end) :] + ending
            name = name[: -len(end)]
    if not ending:
        name, ending = os.path.splitext(name)
    return os.path.join(folder, name), ending
