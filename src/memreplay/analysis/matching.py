"""Which call stacks of two snapshots are the same code, though lines, paths or names have changed.

Stacks are the same where their sites (files and functions) are, whatever the lines say, which tell
apart several of the same sites. What is left is compared by the user's own code alone, and what is
left then, because a function was split off or inlined, without the sites that one side alone has:
it lands on the nearest caller that both know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memreplay.analysis.plumbing import LIBRARY, file_rank
from memreplay.analysis.sites import Calls, Site, same_sites
from memreplay.model import Frame

Stack = tuple[Frame, ...]  # innermost first
Path = tuple[int, ...]  # numbers of sites
Rows = dict[tuple[str, Path], list[int]]  # stacks of one kind and path

MOST_IN_ORDER = 16  # stacks of the same sites that are compared each with each


@dataclass(slots=True)
class Match:
    """Stacks of the base and of the new snapshot, by index, that are the same code.

    `frames` is what both have in common: a whole stack (of the new side, where it has one), or
    where functions differ the callers that both know.
    """

    frames: Stack
    base: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)


def match_stacks(
    base: Sequence[Stack],
    new: Sequence[Stack],
    *,
    exact: bool = False,
    n_bytes: tuple[Sequence[int], Sequence[int]] | None = None,
    kinds: tuple[Sequence[str], Sequence[str]] | None = None,
) -> list[Match]:
    """Every stack of both sides in one match; empty stacks match each other.

    `exact` takes nothing but equal stacks, line for line. Where lines leave open which stack became
    which, the least change of `n_bytes`, of each side's stacks, decides; without these such stacks
    are one match. Only stacks of one kind match, where `kinds` says of which they are.
    """
    sides = _Sides(base, new, n_bytes, kinds)
    if exact:
        return _same_lines(sides, range(len(base)), range(len(new)))
    sides.find_sites()
    found, left_base, left_new = _same_sites(sides)
    matched, left_base, left_new = _same_user_code(sides, left_base, left_new)
    found += matched
    return _same_callers(sides, found, left_base, left_new)


def same_functions(base: Sequence[Stack], new: Sequence[Stack]) -> list[bool]:
    """Of each stack of the new side, whether the base has one of the same functions and files."""
    sides = _Sides(base, new, None, None)
    sides.find_sites()
    known = set(sides.base_paths)
    return [path in known for path in sides.new_paths]


class _Sides:
    """Both sides' stacks as numbers: equal numbers of sites are the same code."""

    def __init__(
        self,
        base: Sequence[Stack],
        new: Sequence[Stack],
        n_bytes: tuple[Sequence[int], Sequence[int]] | None,
        kinds: tuple[Sequence[str], Sequence[str]] | None,
    ) -> None:
        self.base, self.new = base, new
        self.base_bytes, self.new_bytes = n_bytes or ((), ())
        self.base_kinds, self.new_kinds = kinds or ([""] * len(base), [""] * len(new))
        self.names: dict[Site, int] = {}
        self.base_paths: list[Path] = []
        self.new_paths: list[Path] = []
        self.is_user: list[bool] = []

    def find_sites(self) -> None:
        """Fills in the paths."""
        base, new = _frames_of(self.base), _frames_of(self.new)
        ours, theirs = same_sites(
            set(base.values()),
            set(new.values()),
            lambda: (_calls(self.base, base), _calls(self.new, new)),
        )
        self.base_paths = self._paths(self.base, base, ours)
        self.new_paths = self._paths(self.new, new, theirs)
        # What stands between the user's functions comes and goes without any change of theirs.
        self.is_user = [_is_user(site) for site in self.names]

    def _paths(
        self, stacks: Sequence[Stack], frames: dict[int, Site], called: dict[Site, Site]
    ) -> list[Path]:
        number = {
            at: self.names.setdefault(called[site], len(self.names)) for at, site in frames.items()
        }
        return [tuple([number[id(frame)] for frame in stack]) for stack in stacks]

    def user_path(self, path: Path) -> Path:
        """The user's functions in it; a recursion counts once, however deep."""
        found: list[int] = []
        for site in path:
            if self.is_user[site] and (not found or found[-1] != site):
                found.append(site)
        return tuple(found)


def _frames_of(stacks: Sequence[Stack]) -> dict[int, Site]:
    """The site of each frame, by its identity: a frame is hashed once, not once a stack."""
    return {id(frame): (frame.file, frame.function) for stack in stacks for frame in stack}


def _calls(stacks: Sequence[Stack], sites: dict[int, Site]) -> Calls:
    pairs = {(id(inner), id(outer)) for stack in stacks for inner, outer in pairwise(stack)}
    found: Calls = {site: set() for site in sites.values()}
    for inner, outer in pairs:
        found[sites[inner]].add(sites[outer])
    return found


def _is_user(site: Site) -> bool:
    file, function = site
    # A lambda or a comprehension is a part of the function around it.
    inner = function.rpartition(".")[2]
    return file_rank(file) <= LIBRARY and (not inner.startswith("<") or inner == "<module>")


def _same_lines(sides: _Sides, mine: Iterable[int], its: Iterable[int]) -> list[Match]:
    found: dict[tuple[str, Stack], Match] = {}
    for i in mine:
        stack = sides.base[i]
        found.setdefault((sides.base_kinds[i], stack), Match(stack)).base.append(i)
    for i in its:
        stack = sides.new[i]
        found.setdefault((sides.new_kinds[i], stack), Match(stack)).new.append(i)
    return list(found.values())


def _same_sites(sides: _Sides) -> tuple[list[Match], list[int], list[int]]:
    """Matches by sites, and what is left of each side."""
    ours: Rows = defaultdict(list)
    theirs: Rows = defaultdict(list)
    for i, key in enumerate(zip(sides.base_kinds, sides.base_paths, strict=True)):
        ours[key].append(i)
    for i, key in enumerate(zip(sides.new_kinds, sides.new_paths, strict=True)):
        theirs[key].append(i)
    found: list[Match] = []
    left_base: list[int] = []
    left_new: list[int] = []
    for key, its in theirs.items():
        mine = ours.pop(key, [])
        if len(mine) == len(its) == 1:
            found.append(Match(sides.new[its[0]], mine, its))
        elif mine:
            matched, gone, added = _told_apart(sides, mine, its)
            found += matched
            left_base += gone
            left_new += added
        else:
            left_new += its
    left_base += (i for rows in ours.values() for i in rows)
    return found, sorted(left_base), sorted(left_new)


def _told_apart(
    sides: _Sides, mine: list[int], its: list[int]
) -> tuple[list[Match], list[int], list[int]]:
    """Matches of stacks of the same sites, and what is left of each side.

    Where one side has all lines of the other, the code did not move: they say it all. Else either
    some lines are still right, or all have moved, in their order: what changes less is believed.
    """
    exact = _same_lines(sides, mine, its)
    found = [one for one in exact if one.base and one.new]
    gone = [i for one in exact if not one.new for i in one.base]
    added = [i for one in exact if not one.base for i in one.new]
    if not gone or not added:
        return found, gone, added
    by_lines, gone, added = _in_order(sides, gone, added)
    by_lines += found
    if found and (len(mine) == len(its) or max(len(mine), len(its)) <= MOST_IN_ORDER):
        moved = _in_order(sides, mine, its)
        if _change(sides, *moved) < _change(sides, by_lines, gone, added):
            return moved
    return by_lines, gone, added


def _in_order(
    sides: _Sides, mine: list[int], its: list[int]
) -> tuple[list[Match], list[int], list[int]]:
    """Matches in the order of lines: as many on both sides one by one, else by the least change."""
    mine = sorted(mine, key=lambda i: [frame.line for frame in sides.base[i]])
    its = sorted(its, key=lambda i: [frame.line for frame in sides.new[i]])
    pairs = list(zip(range(len(mine)), range(len(its)), strict=False))
    if len(mine) != len(its):
        if not sides.base_bytes or not sides.new_bytes or max(len(mine), len(its)) > MOST_IN_ORDER:
            return [Match(sides.new[its[0]], mine, its)], [], []
        pairs = _least_change(
            [sides.base_bytes[i] for i in mine], [sides.new_bytes[i] for i in its]
        )
    matched = [Match(sides.new[its[b]], [mine[a]], [its[b]]) for a, b in pairs]
    gone = set(mine).difference(*(one.base for one in matched))
    added = set(its).difference(*(one.new for one in matched))
    return matched, sorted(gone), sorted(added)


def _least_change(base: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of both, in their order, such that the least changes, and of that the fewest.

    What is in no pair is gone or new.
    """
    # Of the ends that begin at a and b: (bytes, how many), and whether these two are a pair, or
    # which of them is alone.
    rows = len(new) + 1
    least = [(0, 0)] * rows
    ways: list[list[str]] = []
    for a in range(len(base), -1, -1):
        below, least = least, [(0, 0)] * rows
        way = ["end"] * rows
        for b in range(len(new), -1, -1):
            best: tuple[int, int] | None = None
            if a < len(base) and b < len(new):
                n_bytes, n = below[b + 1]
                change = abs(base[a] - new[b])
                best, way[b] = (n_bytes + change, n + (change > 0)), "pair"
            if a < len(base):
                n_bytes, n = below[b]
                alone = (n_bytes + base[a], n + 1)
                if best is None or alone < best:
                    best, way[b] = alone, "gone"
            if b < len(new):
                n_bytes, n = least[b + 1]
                alone = (n_bytes + new[b], n + 1)
                if best is None or alone < best:
                    best, way[b] = alone, "new"
            if best is not None:
                least[b] = best
        ways.append(way)
    ways.reverse()
    found = []
    a = b = 0
    while ways[a][b] != "end":
        if ways[a][b] == "pair":
            found.append((a, b))
        a, b = a + (ways[a][b] != "new"), b + (ways[a][b] != "gone")
    return found


def _change(
    sides: _Sides, matches: list[Match], gone: list[int], added: list[int]
) -> tuple[int, int]:
    """How many bytes change in all, and how many stacks; zeros where bytes are not known."""
    if not sides.base_bytes or not sides.new_bytes:
        return 0, 0
    changes = [sides.base_bytes[i] for i in gone] + [sides.new_bytes[i] for i in added]
    for one in matches:
        before = sum(sides.base_bytes[i] for i in one.base)
        changes.append(abs(sum(sides.new_bytes[i] for i in one.new) - before))
    return sum(changes), sum(change > 0 for change in changes)


def _same_user_code(
    sides: _Sides, left_base: list[int], left_new: list[int]
) -> tuple[list[Match], list[int], list[int]]:
    """Matches of what is left by the user's functions alone, and what is left then."""
    ours: Rows = defaultdict(list)
    theirs: Rows = defaultdict(list)
    for i in left_base:
        ours[sides.base_kinds[i], sides.user_path(sides.base_paths[i])].append(i)
    for i in left_new:
        theirs[sides.new_kinds[i], sides.user_path(sides.new_paths[i])].append(i)
    found, still_base, still_new = [], [], []
    for key in dict.fromkeys((*ours, *theirs)):
        mine, its = ours.get(key, []), theirs.get(key, [])
        if key[1] and mine and its:
            frames = sides.new[its[0]]
            if len(its) > 1 or len(mine) > 1:
                kept = sides.new_paths[its[0]]
                frames = tuple(
                    frame for frame, site in zip(frames, kept, strict=True) if sides.is_user[site]
                )
            found.append(Match(frames, mine, its))
        else:
            still_base += mine
            still_new += its
    return found, sorted(still_base), sorted(still_new)


def _same_callers(
    sides: _Sides, done: list[Match], left_base: list[int], left_new: list[int]
) -> list[Match]:
    """All matches: those that are `done`, some of which take up what is left, and others for it."""
    common = {site for path in sides.base_paths for site in path}
    common &= {site for path in sides.new_paths for site in path}
    by_path: dict[tuple[str, Path], Match] = {}
    for one in done:
        at = one.new[0]
        by_path.setdefault((sides.new_kinds[at], sides.new_paths[at]), one)
    found = list(done)
    left = [
        (stacks[i], kinds[i], paths[i], side, i)
        for side, stacks, kinds, paths, rows in (
            (0, sides.base, sides.base_kinds, sides.base_paths, left_base),
            (1, sides.new, sides.new_kinds, sides.new_paths, left_new),
        )
        for i in rows
    ]
    # Those that the other side could have had as they are come first. Nothing that was there all
    # along took their place: they are gone or new, unless what was split off them is left, too.
    for whole in (True, False):
        for stack, kind, path, side, i in left:
            kept = [at for at, site in enumerate(path) if site in common]
            if (len(kept) == len(path)) is not whole:
                continue
            known = tuple(path[at] for at in kept)
            match = by_path.get((kind, known)) if known and not whole else None
            if match is None:
                match = Match(tuple(stack[at] for at in kept))
                found.append(match)
                if known:
                    by_path[kind, known] = match
            (match.new if side else match.base).append(i)
    for one in found:
        if len(one.base) + len(one.new) == 1:
            # It found no other: it is shown as it is.
            one.frames = sides.base[one.base[0]] if one.base else sides.new[one.new[0]]
    return found
