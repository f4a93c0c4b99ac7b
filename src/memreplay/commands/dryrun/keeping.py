"""Name and keep a dry run's snapshots."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memreplay.commands.shared.names import split
from memreplay.commands.shared.output import byte_output
from memreplay.errors import UsageError
from memreplay.io.packing import by_name, packed
from memreplay.io.whole import give_name

if TYPE_CHECKING:
    from memreplay.dryrun.launch import Ended


def names(ended: Ended, output: str) -> dict[int, str]:
    """Return the name of each process's file, which is `output`, with `.rankN` before the suffix if
    there are several processes.
    """
    them = [one for one in ended.processes if one.pickle is not None]
    if len(them) == 1:
        return {them[0].pid: output}
    stem, ending = split(output)
    ranks = [one.facts.get("rank") for one in them]
    return {
        one.pid: f"{stem}.rank{rank}{ending}"
        if rank is not None and ranks.count(rank) == 1
        else f"{stem}.pid{one.pid}{ending}"
        for one, rank in zip(them, ranks, strict=True)
    }


def keep(ended: Ended, files: Mapping[int, str], *, force: bool) -> dict[int, str]:
    """Write each snapshot to its file, compressed according to its name.

    Errors are returned by process rather than raised, so that the run's results aren't lost.
    Without `force`, it's an error if the program has written such a file in the meantime.
    """
    failed = {}
    for one in ended.processes:
        path = files.get(one.pid)
        if path is None or one.pickle is None:
            continue
        try:
            _keep(one.pickle, path, force=force)
        except FileExistsError:
            failed[one.pid] = f"the program wrote {path} itself; choose another --output"
        except OSError as error:
            failed[one.pid] = f"{path}: {error.strerror or error}"
        except UsageError as error:
            failed[one.pid] = str(error)
    return failed


def _keep(made: Path, path: str, *, force: bool) -> None:
    _, packing = by_name(path)
    if not force and os.path.exists(path):
        raise FileExistsError(path)
    if packing is None:
        give_name(str(made), path)
        return
    with open(made, "rb") as raw, byte_output(path) as out, packed(out, packing) as plain:
        shutil.copyfileobj(raw, plain, 1 << 20)


def older(output: str, files: Mapping[int, str]) -> tuple[str, ...]:
    """Return snapshots of earlier runs in the same folder, which could be mistaken for this
    run's.
    """
    stem, ending = split(output)
    beside: list[str] = []
    for kind in ("rank", "pid"):
        beside += glob.glob(f"{glob.escape(stem)}.{kind}*{glob.escape(ending)}")
    return tuple(sorted(set(beside) - set(files.values())))
