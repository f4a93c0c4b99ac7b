"""Several dumps of each rank in one folder: which to read, and in what order they were made.

Trainers write a file a rank, again and again (`layouts` has the names). Of each rank the newest is
read; all of them are its history.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.comparing.layouts import moment_of, process_of, says_moment
from memreplay.analysis.comparing.rank_names import ranks_said
from memreplay.errors import UsageError
from memreplay.io.choosing import one_of_two
from memreplay.io.names import bare, natural, stem_of_page

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from memreplay.io.listing import Listed

    Age = Callable[[Listed], float | None]

EACH = "each"  # what asks for all dumps
_NUMBER = re.compile(r"[0-9]+")
# Two machines that count their ranks from 0 on aren't two dumps of one rank.
_MACHINE = re.compile(r"(?:^|[^a-z])(?:node|host)s?[-_. =]*([0-9]+)", re.IGNORECASE)
_RANK = re.compile(r"[-_.]?(?:local[-_.]?)?rank[-_. =]*[0-9]+", re.IGNORECASE)
_RANK_NUMBER = re.compile(r"(rank[-_. =]*)[0-9]+", re.IGNORECASE)
_PLAIN_RANK = re.compile(r"(?:^|/)[0-9]{6,}(?=_step_)")  # torchtitan's, without the word
_PID = re.compile(r"[-_.]?pid[-_. =]*[0-9]+", re.IGNORECASE)
# torchtitan fills steps up to twelve digits; those of a time are part of it.
_ZEROS = re.compile(
    r"((?:^|[^a-z])(?:iteration|iter|step|epoch)s?[-_. =]*)0+(?=[0-9])", re.IGNORECASE
)
_CLOCK = re.compile(r"[-_.]?(?:time|t)?[0-9]{9,}(?:\.[0-9]+)?")  # each rank's own
_SHOWN = 4  # dumps that a message lists


class Dump(NamedTuple):
    """A file, and what its dump is called: two of one rank have different names."""

    file: Listed
    name: str
    rank: int | None


class Chosen(NamedTuple):
    """The files that are left; all dumps of each process, the oldest first, if any process has
    several or they are of different steps; and the ranks that have files, but none of the dump that
    is wanted."""

    files: list[Listed]
    histories: tuple[tuple[Dump, ...], ...] = ()
    without: tuple[int, ...] = ()

    @property
    def newest(self) -> list[Listed]:
        """The last dump of each process; all files where none has several."""
        last = {id(one[-1].file) for one in self.histories}
        return [one for one in self.files if not last or id(one) in last]

    @property
    def older(self) -> list[Listed]:
        """The others of `files`."""
        last = {id(one[-1].file) for one in self.histories}
        return [one for one in self.files if last and id(one) not in last]

    @property
    def names(self) -> tuple[str, ...]:
        """What all dumps are called; nothing where there was nothing to choose from."""
        longest = sorted(self._of_ranks, key=len, reverse=True)
        return tuple(dict.fromkeys(one.name for history in longest for one in history))

    @property
    def different_steps(self) -> str:
        """`step_20 of rank 0, step_10 of rank 1`: which newest dump is of which step; empty if all
        are of one step, or the names don't say."""
        newest = [some[-1] for some in self._of_ranks]
        if not _differ([one.file for one in newest]):
            return ""
        ranks: dict[str, list[int | None]] = {}
        for one in newest:
            ranks.setdefault(one.name, []).append(one.rank)
        return _listed([_of_ranks_words(name, some) for name, some in ranks.items()])

    def words(self, verb: str) -> str:
        """`each rank has several dumps (iteration_10, iteration_20): the newest is read`: what was
        chosen; empty where nothing was."""
        if not self.histories:
            return ""
        ranks = self._of_ranks
        several, different = any(len(one) > 1 for one in ranks), self.different_steps
        if not several:
            return f"the dumps that are {verb} are of different steps: {different}"
        whose = "each rank has" if all(len(one) > 1 for one in ranks) else "some ranks have"
        if all(one[0].rank is None for one in ranks):
            whose = "there are"
        words = f"{whose} several dumps ({_listed(self.names)}): the newest"
        if different:
            words += f" of each is {verb}, and these are of different steps: {different}"
        else:
            words += f" is {verb}"
            of: dict[str, list[int | None]] = {}
            for one in ranks:
                of.setdefault(one[-1].name, []).append(one[-1].rank)
            if len(of) > 1:
                words += f", {_listed([_of_ranks_words(name, some) for name, some in of.items()])}"
        chooses = "NAME chooses another"
        common = self._common if different else None
        if common is not None:
            chooses = f"{common} chooses the newest that all have"
        return f"{words}; --dump {chooses}, --dump {EACH} all of them"

    @property
    def _common(self) -> str | None:
        """The newest dump that all have."""
        shared = set.intersection(*({one.name for one in some} for some in self._of_ranks))
        newest_first = (one.name for one in reversed(self._of_ranks[0]))
        return next((name for name in newest_first if name in shared), None)

    @property
    def _of_ranks(self) -> tuple[tuple[Dump, ...], ...]:
        """Without the files that say no rank where others do."""
        ranked = tuple(one for one in self.histories if one[0].rank is not None)
        return ranked or self.histories


def one_dump(
    files: Sequence[Listed],
    wanted: str | None,
    age: Age,
    ranks: Callable[[Sequence[str]], Sequence[int | None]] = ranks_said,
) -> Chosen:
    """One file of each rank, where ranks have several: those of the dump called `wanted`, or else
    the newest. All files, if `wanted` is EACH.

    `ranks` finds them in names. `wanted` is a dump's name, part of a path, or a pattern with `*`.
    Which dump is newer the names say, by a step or a time; else the numbers in them, if they have
    those in the same places; else `age`, which is None where the store doesn't say. Raises
    UsageError for a dump that isn't there, and where nothing tells.
    """
    rank_of = dict(zip(map(id, files), ranks([one.name for one in files]), strict=True))
    there = {rank for rank in rank_of.values() if rank is not None}
    if wanted is not None and wanted != EACH:
        files = _wanted(files, wanted)
    left = [rank_of[id(one)] for one in files]
    found = [_in_order(some, age) for some in _processes(files, left)]
    without = tuple(sorted(there - {some[0].rank for some in found}))
    chosen = Chosen(list(files), tuple(map(tuple, found)), without)
    if all(len(some) == 1 for some in found):
        return chosen if chosen.different_steps else Chosen(list(files), (), without)
    if wanted == EACH:
        return chosen
    newest = {id(some[-1].file) for some in found}
    return chosen._replace(files=[one for one in files if id(one) in newest])


def beside_pages(
    files: Sequence[Listed],
    ranks: Callable[[Sequence[str]], Sequence[int | None]] = ranks_said,
) -> list[Listed]:
    """The files without the HTML pages of snapshots that are there themselves: of the same rank, or
    without a rank of the same name in the same folder. Of two pages of one snapshot the one with
    the trace."""
    names = [one.name for one in files]
    own = set(one_of_two(names))
    stems = [stem_of_page(name) for name in names]
    if all(stem is None for stem in stems):
        return list(files)
    snapshots: set[tuple[str, int | str]] = set()
    of: list[tuple[str, int | str]] = []
    for name, stem, rank in zip(names, stems, ranks(names), strict=True):
        folder, _, last = (bare(name) if stem is None else stem).rpartition("/")
        of.append(("", rank) if rank is not None else (folder, last))
        if stem is None:
            snapshots |= {of[-1], (folder, "")}  # `trace_plot.html` has no name of its own
    return [
        one
        for one, stem, key in zip(files, stems, of, strict=True)
        if stem is None or (key not in snapshots and one.name in own)
    ]


def _differ(files: Sequence[Listed]) -> bool:
    """Whether the names say that these were dumped in different steps. Times of ranks differ that
    dump at once, each by its own clock; and a dump at the end of a step is of that step."""
    moments = [moment_of(one.name) for one in files]
    steps = {one[1][::2] for one in moments if one is not None and one[0] != "time"}
    return len(steps) > 1


def dump_of(name: str) -> str:
    """What a dump is called: the folders that say its step or time; else its folder, or else its
    file, without the rank; of a file that is called by nothing else `rank*.pickle`."""
    *folders, own = bare(name).split("/")
    told = [_unfilled(part) for part in folders if says_moment(part)]
    if told:
        return "/".join(told)
    shown = _without_rank(own)
    if not says_moment(own):
        found = [part for part in map(_folder_without_rank, folders) if part]
        if found:
            return "/".join(found)
    return shown or _RANK_NUMBER.sub(r"\1*", name.rpartition("/")[2])


def _without_rank(part: str) -> str:
    """A part of a path without the rank and what else is of one process: `snapshot_iter20`."""
    for pattern in (_PLAIN_RANK, _RANK, _PID, _CLOCK):
        part = pattern.sub("", part)
    return _unfilled(part).strip("-_. ")


def _folder_without_rank(part: str) -> str:
    """The same of a folder: the time in its name is that of all ranks, if it is not of one rank."""
    return _without_rank(part) if _RANK.search(part) else part


def _unfilled(part: str) -> str:
    return _ZEROS.sub(r"\1", part)


def _processes(
    files: Sequence[Listed], ranks: Sequence[int | None]
) -> list[list[tuple[Listed, int | None]]]:
    """The files of each process. One whose name says no rank where others do is by itself."""
    says = any(rank is not None for rank in ranks)
    found: dict[Hashable, list[tuple[Listed, int | None]]] = {}
    for one, rank in zip(files, ranks, strict=True):
        if rank is not None:
            key: Hashable = (rank, *_MACHINE.findall(one.name))
        else:
            key = one.name if says else process_of(one.name) or one.name
        found.setdefault(key, []).append((one, rank))
    return list(found.values())


def _in_order(some: Sequence[tuple[Listed, int | None]], age: Age) -> list[Dump]:
    """The dumps of one process, the oldest first, each with a name of its own."""
    files = [one for one, _ in some]
    rank = some[0][1]
    files = _oldest_first(files, age) if len(files) > 1 else files
    names = [dump_of(one.name) for one in files]
    if len(set(names)) < len(names):
        own = [_without_rank(bare(one.name).rpartition("/")[2]) for one in files]
        names = [
            name if name == file else f"{name}/{file}"
            for name, file in zip(names, own, strict=True)
        ]
    if len(set(names)) < len(names):
        names = [one.name for one in files]
    return [Dump(one, name, rank) for one, name in zip(files, names, strict=True)]


def _oldest_first(files: list[Listed], age: Age) -> list[Listed]:
    moments = [moment_of(one.name) for one in files]
    kinds = {None if one is None else one[0] for one in moments}
    if None not in kinds and len(kinds) == 1:
        return _by_moment(files, [one[1] for one in moments if one is not None], age)
    if len({_NUMBER.sub("#", one.name) for one in files}) == 1:
        return sorted(files, key=lambda one: natural(one.name))
    found = _by_age(files, age)
    # Copied files have other ages than their dumps: then the steps that some names say contradict.
    for kind in kinds - {None}:
        said = [moment for moment in (moment_of(one.name) for one in found) if moment is not None]
        steps = [moment[1] for moment in said if moment[0] == kind]
        if steps != sorted(steps):
            raise _untold(files)
    return found


def _by_moment(files: list[Listed], moments: list[tuple[int, ...]], age: Age) -> list[Listed]:
    """By what the names say; of one moment, in one folder, by age."""
    groups: dict[tuple[int, ...], list[Listed]] = {}
    for one, moment in zip(files, moments, strict=True):
        groups.setdefault(moment, []).append(one)
    found = []
    for moment in sorted(groups):
        some = groups[moment]
        if len({one.name.rpartition("/")[0] for one in some}) > 1:
            raise UsageError(
                f"{some[0].name} and {some[1].name} are of one rank and one step; name the folder"
                " of one run, or choose one by --dump"
            )
        found += _by_age(some, age) if len(some) > 1 else some
    return found


def _untold(files: list[Listed]) -> UsageError:
    return UsageError(
        "several dumps of one rank, and nothing tells which is the newest:"
        f" {_listed([dump_of(one.name) for one in files])}; choose one by --dump"
    )


def _by_age(files: list[Listed], age: Age) -> list[Listed]:
    ages = [age(one) for one in files]
    known = [one for one in ages if one is not None]
    if len(set(known)) < len(files):
        raise _untold(files)
    order = sorted(zip(known, range(len(files)), strict=True))
    return [files[at] for _, at in order]


def _wanted(files: Sequence[Listed], wanted: str) -> list[Listed]:
    """The files of a dump. Of a single dump the names are without its folder, as all files have
    that in common."""
    tests: tuple[Callable[[Listed], bool], ...] = (
        lambda one: dump_of(one.name) == wanted,
        lambda one: _is_of(one.name, wanted),
        lambda one: _is_of(_with_folder(one.path), wanted),
    )
    for is_of in tests:
        left = [one for one in files if is_of(one)]
        if left:
            return left
    names = [dump_of(one.name) for one in files]
    raise UsageError(f"--dump {wanted}: no file is of it; there are: {_listed(names)}")


def _with_folder(path: str) -> str:
    """A file's name behind that of the folder that it is in."""
    return "/".join(re.split(r"[/\\]", path)[-2:])


def _is_of(name: str, wanted: str) -> bool:
    if any(char in wanted for char in "*?["):
        return fnmatchcase(name, wanted) or fnmatchcase(name, f"*{wanted}*")
    # No part of a number: iteration_2 isn't iteration_20.
    return bool(re.search(rf"(?<!\d(?=\d)){re.escape(wanted)}(?!(?<=\d)\d)", name))


def _of_ranks_words(name: str, ranks: Sequence[int | None]) -> str:
    if len(ranks) == 1 and ranks[0] is not None:
        return f"{name} of rank {ranks[0]}"
    if None in ranks:
        return f"{name} of {len(ranks):,} file{'' if len(ranks) == 1 else 's'}"
    return f"{name} of {len(ranks):,} ranks"


def _listed(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
