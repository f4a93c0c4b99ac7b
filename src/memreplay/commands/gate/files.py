"""Choose the files that a gate judges: the named ones, and the snapshots in folders and patterns.
If a rank has several dumps, only one is chosen.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.commands.shared.dumps import chosen_dump
from memreplay.commands.shared.errors import NOT_READABLE, attempt_explained, complain, name_of
from memreplay.commands.shared.folders import holds_files

if TYPE_CHECKING:
    from memreplay.gating.result import GatedFile
    from memreplay.io.walking import Skipped, Unlisted


class GateFile(Struct, frozen=True):
    """A file to judge, its rank, and its dump's name ("" if there was only one)."""

    path: str
    rank: int | None = None
    dump: str = ""


class GateFiles(Struct, frozen=True):
    """The files to judge, the inputs that couldn't be listed, a description of the choice, ranks
    without a file, and whether to compare only within a dump.
    """

    files: tuple[GateFile, ...]
    unlisted: tuple[GatedFile, ...]
    choice: str
    missing_ranks: tuple[int, ...]
    apart: bool = False


def gate_files_of(files: tuple[str, ...], dump: str | None) -> GateFiles:
    """Return the files to judge. Raises UsageError for an unknown dump, and if it's unclear which
    dump is the newest.
    """
    from memreplay.analysis.comparing.dumps import EACH, dump_of
    from memreplay.analysis.comparing.rank_names import explicit_ranks, missing_ranks
    from memreplay.io.listing import with_unique_names

    unlisted: list[GatedFile] = []
    paths = list(dict.fromkeys(_listed(files, unlisted)))
    if len(paths) < 2 and dump is None:
        ranks = explicit_ranks(paths)
        some = tuple(GateFile(path, rank) for path, rank in zip(paths, ranks, strict=True))
        return GateFiles(some, tuple(unlisted), "", ())
    listed = with_unique_names(paths)
    chosen = chosen_dump(listed, dump)
    names = {id(one.file): one.name for some in chosen.histories for one in some}
    if dump not in (None, EACH):
        names = {id(one): dump_of(one.name) for one in chosen.files} | names
    rank_of = dict(zip(map(id, listed), explicit_ranks([one.name for one in listed]), strict=True))
    found = tuple(
        GateFile(one.path, rank_of[id(one)], names.get(id(one), "")) for one in chosen.files
    )
    ranks = [one.rank for one in found]
    is_folder = list(files) != paths  # if files are named one by one, none is missing
    missing = chosen.without
    if is_folder and None not in ranks:
        missing = missing_ranks({rank for rank in ranks if rank is not None}, chosen.without)
    return GateFiles(
        found,
        tuple(unlisted),
        chosen.words("judged") if dump != EACH else "",
        missing,
        apart=dump == EACH or bool(chosen.different_steps),
    )


def _listed(files: tuple[str, ...], unlisted: list[GatedFile]) -> list[str]:
    """Return the paths of all files. Raises an error for a folder that can't be listed."""
    from memreplay.gating.result import GatedFile

    found: list[str] = []

    def fail(name: str, error: str, exit_code: int) -> None:
        unlisted.append(GatedFile(file=name, error=error, exit_code=exit_code))

    for file in files:
        if file == "-" or not (holds_files(file) or _is_pattern(file)):
            found.append(file)
            continue
        skipped: list[Unlisted] = []
        matched, exit_code, words = attempt_explained("", partial(_matching, file, skipped.append))
        found += matched or []
        if exit_code:
            name = name_of(file)
            fail(name, words.removeprefix(f"{name}: "), exit_code)
        for one in skipped:
            complain(f"{one.folder}: {one.words}")
            fail(one.folder, one.words, NOT_READABLE)
    return found


def _is_pattern(file: str) -> bool:
    """Return whether a name is a pattern.

    A pattern that matches nothing is treated as the name of a missing file. Object stores have no
    folders, so they're queried.
    """
    if file == "-" or os.path.exists(file):
        return False
    if "://" in file:
        return True
    from glob import has_magic, iglob

    return has_magic(file) and next(iglob(file, recursive=True), None) is not None


def _matching(file: str, skipped: Skipped) -> list[str]:
    from memreplay.io.listing import listed

    return [one.path for one in listed([file], skipped)]
