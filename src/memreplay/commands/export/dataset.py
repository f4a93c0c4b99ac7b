"""Exports the tables of several ranks into one dataset, a folder a rank in each table's."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memreplay.analysis.comparing.rank_names import ranks_of, says_rank
from memreplay.commands.export.saying import say_folder
from memreplay.commands.export.writing import check_unmixed, read, say_cut_off, write_all
from memreplay.commands.shared.errors import name_of, say
from memreplay.commands.shared.folder import folder_output
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.commands.export.options import Export
    from memreplay.io.whole_files import Folder

# `host-node7`, `host=node7`, `hostname_node7`; a name ends at the next part of the file's name.
_HOST = re.compile(r"host(?:name)?[-_=. ]([A-Za-z0-9][A-Za-z0-9-]*)", re.IGNORECASE)
_SHOWN = 4  # ranks that a line lists


def export_dataset(asked: Export, named: tuple[str, ...], rules: tuple[Rule, ...]) -> int:
    """Writes OUT/TABLE/rank=N/NAME.FORMAT for each snapshot; the exit code.

    All of it or nothing: a snapshot that cannot be read is not left out. Raises UsageError.
    """
    if asked.output is None or asked.output == "-":
        raise UsageError("a dataset is a folder: give -o DIR/")
    paths = list(dict.fromkeys(name_of(file).replace(os.sep, "/") for file in asked.files))
    ranks, unranked = ranks_of(paths)
    if unranked:
        raise UsageError(
            f"no rank in the name {unranked[0]}: name files as rank0.pkl, rank1.pkl, …"
        )
    files = dict(zip(paths, dict.fromkeys(asked.files), strict=True))
    names = {
        (table, rank): f"{table}/rank={rank}/{_stem(path)}.{asked.fmt}"
        for table in named
        for rank, path in ranks.items()
    }
    check_unmixed(asked.output, ranks=True)
    rows: Counter[str] = Counter()
    with folder_output(asked.output, list(names.values()), force=asked.force) as create:
        for rank, path in ranks.items():
            of_rank = {table: names[table, rank] for table in named}
            exit_code = _add_rank(asked, files[path], path, of_rank, create, rules, rows)
            if exit_code:
                create.give_up()
                return exit_code
    guessed = [f"{rank} {path}" for rank, path in ranks.items() if not says_rank(path)]
    if guessed:
        more = ", …" if len(guessed) > _SHOWN else ""
        say(f"ranks by the one number that differs: {', '.join(guessed[:_SHOWN])}{more}")
    say_folder(asked.output, asked.fmt, rows, list(names.values()))
    return 0


def _add_rank(
    asked: Export,
    file: str,
    path: str,
    names: Mapping[str, str],
    create: Folder,
    rules: tuple[Rule, ...],
    rows: Counter[str],
) -> int:
    """Writes the tables of one snapshot, whose memory is given back before the next is read. Their
    rows are added to `rows`."""
    snapshot, exit_code = read(asked, file)
    if snapshot is None:
        return exit_code
    with snapshot:
        labels = {"file": path, "host": host_of(path)}
        rows.update(write_all(snapshot, names, create, asked, rules, labels))
    say_cut_off(snapshot, f"{path}: ")
    return 0


def host_of(path: str) -> str | None:
    """The host that a file's name, or its folder's, says: what follows `host`."""
    found = _HOST.findall("/".join(path.split("/")[-2:]))
    return found[-1] if found else None


def _stem(path: str) -> str:
    return os.path.basename(path).split(".")[0] or "snapshot"
