"""Choose among several dumps per rank, and order them.

Trainers repeatedly write a file per rank (`layouts` knows the names). By default, each rank's
newest file is read; all files of a rank form its history.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.comparing.layouts import moment_of, names_a_moment, process_of
from memreplay.analysis.comparing.rank_names import explicit_ranks
from memreplay.errors import UsageError
from memreplay.io.choosing import prefer_trace_plots
from memreplay.io.names import bare, natural, stem_of_page

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from memreplay.io.listing import Listed

    Age = Callable[[Listed], float | None]

EACH = "each"  # selects all dumps
_NUMBER = re.compile(r"[0-9]+")
# If each machine numbers its ranks from 0, equal numbers on different machines don't mean the same
# rank.
_MACHINE = re.compile(r"(?:^|[^a-z])(?:node|host)s?[-_. =]*([0-9]+)", re.IGNORECASE)
_RANK = re.compile(r"[-_.]?(?:local[-_.]?)?rank[-_. =]*[0-9]+", re.IGNORECASE)
_RANK_NUMBER = re.compile(r"(rank[-_. =]*)[0-9]+", re.IGNORECASE)
# Torchtitan's file names, which don't contain "rank".
_PLAIN_RANK = re.compile(r"(?:^|/)[0-9]{6,}(?=_step_)")
_PID = re.compile(r"[-_.]?pid[-_. =]*[0-9]+", re.IGNORECASE)
# torchtitan pads steps to twelve digits. Zeros at the start of a time must be kept.
_ZEROS = re.compile(
    r"((?:^|[^a-z])(?:iteration|iter|step|epoch)s?[-_. =]*)0+(?=[0-9])", re.IGNORECASE
)
_CLOCK = re.compile(r"[-_.]?(?:time|t)?[0-9]{9,}(?:\.[0-9]+)?")  # differs between ranks
_SHOWN = 4  # maximum number of dumps listed in a message


class Dump(NamedTuple):
    """A file and the name of its dump, which is unique within the rank."""

    file: Listed
    name: str
    rank: int | None


class Chosen(NamedTuple):
    """The selected files, the dumps of each process, and the ranks that lack the wanted dump. Dumps
    are sorted oldest first, and left out if each process has only one and all are from the same
    step.
    """

    files: list[Listed]
    histories: tuple[tuple[Dump, ...], ...] = ()
    without: tuple[int, ...] = ()

    @property
    def newest(self) -> list[Listed]:
        """The last dump of each process; all files if no process has several."""
        last = {id(one[-1].file) for one in self.histories}
        return [one for one in self.files if not last or id(one) in last]

    @property
    def older(self) -> list[Listed]:
        """The `files` that aren't the newest."""
        last = {id(one[-1].file) for one in self.histories}
        return [one for one in self.files if last and id(one) not in last]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all dumps; empty if there was nothing to choose."""
        longest = sorted(self._of_ranks, key=len, reverse=True)
        return tuple(dict.fromkeys(one.name for history in longest for one in history))

    @property
    def different_steps(self) -> str:
        """The steps of the newest dumps if they are known and differ, e.g. `step_20 of rank 0,
        step_10 of rank 1`; otherwise "".
        """
        newest = [some[-1] for some in self._of_ranks]
        if not _differ([one.file for one in newest]):
            return ""
        ranks: dict[str, list[int | None]] = {}
        for one in newest:
            ranks.setdefault(one.name, []).append(one.rank)
        return _listed([_of_ranks_text(name, some) for name, some in ranks.items()])

    def words(self, verb: str) -> str:
        """Describe the choice, e.g. `each rank has several dumps (iteration_10, iteration_20): the
        newest is read`; "" if there was no choice.
        """
        if not self.histories:
            return ""
        ranks = self._of_ranks
        several, different = any(len(one) > 1 for one in ranks), self.different_steps
        if not several:
            return f"the dumps being {verb} are from different steps: {different}"
        whose = "each rank has" if all(len(one) > 1 for one in ranks) else "some ranks have"
        if all(one[0].rank is None for one in ranks):
            whose = "there are"
        words = f"{whose} several dumps ({_listed(self.names)}): the newest"
        if different:
            words += f" of each is {verb}, and these are from different steps: {different}"
        else:
            words += f" is {verb}"
            of: dict[str, list[int | None]] = {}
            for one in ranks:
                of.setdefault(one[-1].name, []).append(one[-1].rank)
            if len(of) > 1:
                words += f", {_listed([_of_ranks_text(name, some) for name, some in of.items()])}"
        chooses = "NAME chooses another"
        common = self._common if different else None
        if common is not None:
            chooses = f"{common} chooses the newest that all have"
        return f"{words}; --dump {chooses}, --dump {EACH} all of them"

    @property
    def _common(self) -> str | None:
        """Return the newest dump that all ranks have."""
        shared = set.intersection(*({one.name for one in some} for some in self._of_ranks))
        newest_first = (one.name for one in reversed(self._of_ranks[0]))
        return next((name for name in newest_first if name in shared), None)

    @property
    def _of_ranks(self) -> tuple[tuple[Dump, ...], ...]:
        """Return the histories, leaving out those without a rank if others have one."""
        ranked = tuple(one for one in self.histories if one[0].rank is not None)
        return ranked or self.histories


def one_dump(
    files: Sequence[Listed],
    wanted: str | None,
    age: Age,
    ranks: Callable[[Sequence[str]], Sequence[int | None]] = explicit_ranks,
) -> Chosen:
    """Select one file per rank: the dump named `wanted`, or else the newest. EACH selects all
    files.

    `ranks` extracts ranks from names. `wanted` is a dump's name, part of a path, or a pattern with
    `*`. Dumps are ordered by the steps or times in their names, by numbers if the names differ only
    in those, or by `age`, which returns None if the store doesn't report ages. Raises UsageError
    for an unknown dump, or if the order is unknown.
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


def without_redundant_pages(
    files: Sequence[Listed],
    ranks: Callable[[Sequence[str]], Sequence[int | None]] = explicit_ranks,
) -> list[Listed]:
    """Drop HTML pages of snapshots that are themselves among the files.

    A page matches a snapshot with the same rank, or if there are no ranks, with the same file name
    and folder. If a snapshot has two pages, keep the one with the trace.
    """
    names = [one.name for one in files]
    own = set(prefer_trace_plots(names))
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
    """Return whether the names show different steps.

    Times don't count, because each rank has its own clock. A dump on exit belongs to its step.
    """
    moments = [moment_of(one.name) for one in files]
    steps = {one[1][::2] for one in moments if one is not None and one[0] != "time"}
    return len(steps) > 1


def dump_of(name: str) -> str:
    """Return a dump's name: the folders with its step or time, or else its folder or file name,
    without the rank.

    If nothing else is left of a file's name, return `rank*.pickle`.
    """
    *folders, own = bare(name).split("/")
    told = [_unfilled(part) for part in folders if names_a_moment(part)]
    if told:
        return "/".join(told)
    shown = _without_rank(own)
    if not names_a_moment(own):
        found = [part for part in map(_folder_without_rank, folders) if part]
        if found:
            return "/".join(found)
    return shown or _RANK_NUMBER.sub(r"\1*", name.rpartition("/")[2])


def _without_rank(part: str) -> str:
    """Strip the rank and other process-specific text from part of a path, as in
    `snapshot_iter20`.
    """
    for pattern in (_PLAIN_RANK, _RANK, _PID):
        part = pattern.sub("", part)
    # Drop zero padding first, because a padded step can be as long as a time.
    return _CLOCK.sub("", _unfilled(part)).strip("-_. ")


def _folder_without_rank(part: str) -> str:
    """If a folder's name contains a rank, strip it as `_without_rank` does. Return other names
    unchanged, because a time in them is the same for all ranks.
    """
    return _without_rank(part) if _RANK.search(part) else part


def _unfilled(part: str) -> str:
    return _ZEROS.sub(r"\1", part)


def _processes(
    files: Sequence[Listed], ranks: Sequence[int | None]
) -> list[list[tuple[Listed, int | None]]]:
    """Group the files by process. If some files have a rank, those without one form a
    separate group.
    """
    says = any(rank is not None for rank in ranks)
    stems = {process_of(one.name) for one in files}
    found: dict[Hashable, list[tuple[Listed, int | None]]] = {}
    for one, rank in zip(files, ranks, strict=True):
        if rank is not None:
            key: Hashable = (rank, *_MACHINE.findall(one.name))
        else:
            plain = bare(one.name)
            own = plain if plain in stems else one.name
            key = one.name if says else process_of(one.name) or own
        found.setdefault(key, []).append((one, rank))
    return list(found.values())


def _in_order(some: Sequence[tuple[Listed, int | None]], age: Age) -> list[Dump]:
    """Return one process's dumps, oldest first, with unique names."""
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
    # Copies of files can have other ages than the original dumps, so the order by age may
    # contradict known steps.
    for kind in kinds - {None}:
        said = [moment for moment in (moment_of(one.name) for one in found) if moment is not None]
        steps = [moment[1] for moment in said if moment[0] == kind]
        if steps != sorted(steps):
            raise _untold(files)
    return found


def _by_moment(files: list[Listed], moments: list[tuple[int, ...]], age: Age) -> list[Listed]:
    """Sort by the moments in the names. Files of the same folder and moment are sorted by age."""
    groups: dict[tuple[int, ...], list[Listed]] = {}
    for one, moment in zip(files, moments, strict=True):
        groups.setdefault(moment, []).append(one)
    found = []
    for moment in sorted(groups):
        some = groups[moment]
        if len({one.name.rpartition("/")[0] for one in some}) > 1:
            raise UsageError(
                f"{some[0].name} and {some[1].name} are both from the same rank and step; pass"
                " one run's folder, or choose a dump with --dump"
            )
        found += _by_age(some, age) if len(some) > 1 else some
    return found


def _untold(files: list[Listed]) -> UsageError:
    there = _listed([dump_of(one.name) for one in files])
    return UsageError(
        f"several dumps of one rank, and the newest can't be determined: {there}; choose one with"
        " --dump"
    )


def _by_age(files: list[Listed], age: Age) -> list[Listed]:
    ages = [age(one) for one in files]
    known = [one for one in ages if one is not None]
    if len(set(known)) < len(files):
        raise _untold(files)
    order = sorted(zip(known, range(len(files)), strict=True))
    return [files[at] for _, at in order]


def _wanted(files: Sequence[Listed], wanted: str) -> list[Listed]:
    """Return the files of the wanted dump. If only one dump matches, drop the common folder from
    their names.
    """
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
    raise UsageError(
        f"--dump {wanted}: no file belongs to this dump; known dumps: {_listed(names)}"
    )


def _with_folder(path: str) -> str:
    """Return a file's name with its last folder."""
    return "/".join(re.split(r"[/\\]", path)[-2:])


def _is_of(name: str, wanted: str) -> bool:
    if any(char in wanted for char in "*?["):
        return fnmatchcase(name, wanted) or fnmatchcase(name, f"*{wanted}*")
    # Don't match inside a number: iteration_2 isn't part of iteration_20.
    return bool(re.search(rf"(?<!\d(?=\d)){re.escape(wanted)}(?!(?<=\d)\d)", name))


def _of_ranks_text(name: str, ranks: Sequence[int | None]) -> str:
    if len(ranks) == 1 and ranks[0] is not None:
        return f"{name} of rank {ranks[0]}"
    if None in ranks:
        return f"{name} of {len(ranks):,} file{'' if len(ranks) == 1 else 's'}"
    return f"{name} of {len(ranks):,} ranks"


def _listed(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
