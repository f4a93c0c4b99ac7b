"""Which files a gate judges: those that are named, and for folders and patterns the snapshots in
them; of several dumps of a rank one."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.commands.shared.dumps import chosen_dump
from memreplay.commands.shared.errors import NOT_READABLE, complain, name_of, told
from memreplay.commands.shared.folders import holds_files

if TYPE_CHECKING:
    from memreplay.gating.result import GatedFile
    from memreplay.io.walking import Skipped, Unlisted


class GateFile(Struct, frozen=True):
    """A file to judge, its rank, and what its dump is called: empty where there was nothing to
    choose from."""

    path: str
    rank: int | None = None
    dump: str = ""


class GateFiles(Struct, frozen=True):
    """The files to judge, those that could not be listed, and what was chosen, in words; the ranks
    without a file; and whether each is only held against others of the same dump."""

    files: tuple[GateFile, ...]
    unlisted: tuple[GatedFile, ...]
    choice: str
    missing_ranks: tuple[int, ...]
    apart: bool = False


def gate_files_of(files: tuple[str, ...], dump: str | None) -> GateFiles:
    """What to judge of what was named. Raises UsageError for a dump that isn't there, and where
    nothing tells which is the newest."""
    from memreplay.analysis.comparing.dumps import EACH, dump_of
    from memreplay.analysis.comparing.rank_names import missing_ranks, ranks_said
    from memreplay.io.listing import called

    unlisted: list[GatedFile] = []
    paths = list(dict.fromkeys(_listed(files, unlisted)))
    if len(paths) < 2 and dump is None:
        ranks = ranks_said(paths)
        some = tuple(GateFile(path, rank) for path, rank in zip(paths, ranks, strict=True))
        return GateFiles(some, tuple(unlisted), "", ())
    listed = called(paths)
    chosen = chosen_dump(listed, dump)
    names = {id(one.file): one.name for some in chosen.histories for one in some}
    if dump not in (None, EACH):
        names = {id(one): dump_of(one.name) for one in chosen.files} | names
    rank_of = dict(zip(map(id, listed), ranks_said([one.name for one in listed]), strict=True))
    found = tuple(
        GateFile(one.path, rank_of[id(one)], names.get(id(one), "")) for one in chosen.files
    )
    ranks = [one.rank for one in found]
    is_folder = list(files) != paths  # of files that are named one by one none is missed
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
    """The paths of all files; what cannot be listed fails."""
    from memreplay.gating.result import GatedFile

    found: list[str] = []

    def fail(name: str, error: str, exit_code: int) -> None:
        unlisted.append(GatedFile(file=name, error=error, exit_code=exit_code))

    for file in files:
        if file == "-" or not (holds_files(file) or _is_pattern(file)):
            found.append(file)
            continue
        skipped: list[Unlisted] = []
        matched, exit_code, words = told("", partial(_matching, file, skipped.append))
        found += matched or []
        if exit_code:
            name = name_of(file)
            fail(name, words.removeprefix(f"{name}: "), exit_code)
        for one in skipped:
            complain(f"{one.folder}: {one.words}")
            fail(one.folder, one.words, NOT_READABLE)
    return found


def _is_pattern(file: str) -> bool:
    """Whether it stands for other files. What no file matches is the name of one that is missing;
    stores have no folders, and are asked."""
    if file == "-" or os.path.exists(file):
        return False
    if "://" in file:
        return True
    from glob import has_magic, iglob

    return has_magic(file) and next(iglob(file, recursive=True), None) is not None


def _matching(file: str, skipped: Skipped) -> list[str]:
    from memreplay.io.listing import listed

    return [one.path for one in listed([file], skipped)]
