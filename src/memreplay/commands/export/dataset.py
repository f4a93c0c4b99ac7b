"""Export several ranks' tables as one dataset with a folder per table and rank."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memreplay.analysis.comparing.rank_names import names_a_rank, ranks_of
from memreplay.commands.export.messages import say_folder
from memreplay.commands.export.writing import check_unmixed, read, say_cut_off, write_all
from memreplay.commands.shared.errors import name_of, say
from memreplay.commands.shared.folder import folder_output
from memreplay.errors import UsageError
from memreplay.export.naming import is_folder

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export
    from memreplay.io.whole_files import Folder

# `host-node7`, `host=node7`, `hostname_node7`. The host's name ends where the next part of the file
# name begins.
_HOST = re.compile(r"host(?:name)?[-_=. ]([A-Za-z0-9][A-Za-z0-9-]*)", re.IGNORECASE)
_SHOWN = 4  # maximum number of ranks listed on a line


def export_dataset(asked: Export, named: tuple[str, ...]) -> int:
    """Write OUT/TABLE/rank=N/NAME.FORMAT for each snapshot, and return the exit code.

    If a snapshot is unreadable, it isn't skipped: nothing is written. Raises UsageError.
    """
    output = asked.output
    if output is None or output == "-" or (os.path.splitext(output)[1] and not is_folder(output)):
        raise UsageError("several snapshots go into a dataset, which is a folder: give -o DIR/")
    paths = list(dict.fromkeys(name_of(file).replace(os.sep, "/") for file in asked.files))
    ranks, unranked = ranks_of(paths)
    if unranked:
        raise UsageError(
            f"no rank in the file name {unranked[0]}; name the files rank0.pkl, rank1.pkl, …"
        )
    files = dict(zip(paths, dict.fromkeys(asked.files), strict=True))
    names = {
        (table, rank): f"{table}/rank={rank}/{_stem(path)}.{asked.fmt}"
        for table in named
        for rank, path in ranks.items()
    }
    check_unmixed(output, ranks=True)
    rows: Counter[str] = Counter()
    with folder_output(output, list(names.values()), force=asked.force) as create:
        for rank, path in ranks.items():
            of_rank = {table: names[table, rank] for table in named}
            added, exit_code = _add_rank(asked, files[path], path, of_rank, create)
            if added is None:
                create.give_up()
                return exit_code
            rows.update(added)
    guessed = [f"{rank} {path}" for rank, path in ranks.items() if not names_a_rank(path)]
    if guessed:
        more = ", …" if len(guessed) > _SHOWN else ""
        say(f"ranks taken from the only number that differs: {', '.join(guessed[:_SHOWN])}{more}")
    say_folder(output, asked.fmt, rows, list(names.values()))
    return 0


def _add_rank(
    asked: Export,
    file: str,
    path: str,
    names: Mapping[str, str],
    create: Folder,
) -> tuple[Mapping[str, int] | None, int]:
    """Write one snapshot's tables.

    The snapshot's memory is freed before the next snapshot is read. Return each table's number of
    rows and 0, or None and the error's exit code.
    """
    snapshot, exit_code = read(asked, file)
    if snapshot is None:
        return None, exit_code
    with snapshot:
        labels = {"file": path, "host": host_of(path)}
        rows = write_all(snapshot, names, create, asked, labels)
    say_cut_off(snapshot, f"{path}: ")
    return rows, 0


def host_of(path: str) -> str | None:
    """Return the host's name, which follows `host` in a file or folder name."""
    found = _HOST.findall("/".join(path.split("/")[-2:]))
    return found[-1] if found else None


def _stem(path: str) -> str:
    return os.path.basename(path).split(".")[0] or "snapshot"
