"""The names of snapshots that a program leaves, several of them by rank."""

from __future__ import annotations

import glob
import os

from memreplay.commands.shared.output import check_output
from memreplay.errors import UsageError
from memreplay.io.packing import FORMATS, PACKINGS, by_name


def check_names(output: str, *, force: bool) -> None:
    """Raises UsageError where snapshots should not go: asked before the program runs."""
    if output == "-" or not os.path.basename(output):
        raise UsageError(f"cannot write {output}: name a file; stdout is the program's")
    check_output(output, force=force, binary=True)
    if os.path.exists(output) and not os.path.isfile(output):
        raise UsageError(f"cannot write {output}: it is no file")
    if by_name(output)[0] == "json":
        raise UsageError(
            f"{output}: snapshots are pickles; name it .pickle, and memreplay export makes JSON"
        )
    stem, ending = split(output)
    there = glob.glob(f"{glob.escape(stem)}.rank*{glob.escape(ending)}")
    if there and not force:
        raise UsageError(f"{min(there)} already exists; give --force to replace it")


def split(path: str) -> tuple[str, str]:
    """`run.pickle.gz` as `run` and `.pickle.gz`."""
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
