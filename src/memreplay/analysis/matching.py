"""Which call stacks of two snapshots are the same code, though lines, paths or names have changed.

Stacks are the same where their functions and files are, whatever the lines say. Files that only one
side has are aligned by the longest common end of their paths. What is left, because a function was
renamed, split off or inlined, is compared without the functions that only one side has: it lands on
the nearest caller that both know.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memreplay.model import Frame

Stack = tuple[Frame, ...]  # innermost first
Site = tuple[str, str]  # file, function
Path = tuple[Site, ...]


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
    base: Sequence[Stack], new: Sequence[Stack], *, exact: bool = False
) -> list[Match]:
    """Every stack of both sides in one match; empty stacks match each other.

    `exact` takes nothing but equal stacks, line for line.
    """
    matches = _same_lines(base, new)
    if exact:
        return matches
    aligned = align_paths({f.file for s in base for f in s}, {f.file for s in new for f in s})
    paths_base = [_path(stack, {}) for stack in base]
    paths_new = [_path(stack, aligned) for stack in new]
    done = [one for one in matches if one.base and one.new]
    left_base = [i for one in matches if not one.new for i in one.base]
    left_new = [i for one in matches if not one.base for i in one.new]
    matched, left_base, left_new = _same_functions(
        base, new, paths_base, paths_new, left_base, left_new
    )
    done += matched
    return _same_callers(base, new, paths_base, paths_new, done, left_base, left_new)


def same_functions(base: Sequence[Stack], new: Sequence[Stack]) -> list[bool]:
    """Of each stack of the new side, whether the base has one of the same functions and files."""
    aligned = align_paths({f.file for s in base for f in s}, {f.file for s in new for f in s})
    known = {_path(stack, {}) for stack in base}
    return [_path(stack, aligned) in known for stack in new]


def _path(stack: Stack, aligned: dict[str, str]) -> Path:
    return tuple((aligned.get(frame.file, frame.file), frame.function) for frame in stack)


def _same_lines(base: Sequence[Stack], new: Sequence[Stack]) -> list[Match]:
    found: dict[Stack, Match] = {}
    for i, stack in enumerate(base):
        found.setdefault(stack, Match(stack)).base.append(i)
    for i, stack in enumerate(new):
        found.setdefault(stack, Match(stack)).new.append(i)
    return list(found.values())


def _same_functions(
    base: Sequence[Stack],
    new: Sequence[Stack],
    paths_base: Sequence[Path],
    paths_new: Sequence[Path],
    left_base: Iterable[int],
    left_new: Iterable[int],
) -> tuple[list[Match], list[int], list[int]]:
    """Matches by file and function, and what is left of each side.

    Several stacks of the same functions are told apart by their lines: as many on both sides are
    taken in the order of their lines; else they are one match, as nothing says which became which.
    """
    ours: dict[Path, list[int]] = defaultdict(list)
    theirs: dict[Path, list[int]] = defaultdict(list)
    for i in left_base:
        ours[paths_base[i]].append(i)
    for i in left_new:
        theirs[paths_new[i]].append(i)
    matches = []
    for path in ours.keys() & theirs.keys():
        mine, its = ours.pop(path), theirs.pop(path)
        if len(mine) == len(its):
            mine.sort(key=lambda i: [frame.line for frame in base[i]])
            its.sort(key=lambda i: [frame.line for frame in new[i]])
            matches += [Match(new[b], [a], [b]) for a, b in zip(mine, its, strict=True)]
        else:
            matches.append(Match(new[its[0]], mine, its))
    matches.sort(key=lambda one: one.new)
    return matches, sorted(_flat(ours.values())), sorted(_flat(theirs.values()))


def _flat(lists: Iterable[list[int]]) -> list[int]:
    return [i for one in lists for i in one]


def _same_callers(
    base: Sequence[Stack],
    new: Sequence[Stack],
    paths_base: Sequence[Path],
    paths_new: Sequence[Path],
    done: list[Match],
    left_base: list[int],
    left_new: list[int],
) -> list[Match]:
    """All matches: those that are `done`, some of which take up what is left, and others for it."""
    sites_base = {site for path in paths_base for site in path}
    sites_new = {site for path in paths_new for site in path}
    common = sites_base & sites_new
    by_path: dict[Path, Match] = {}
    for one in done:
        by_path.setdefault(paths_new[one.new[0]], one)
    found = list(done)
    left = [
        (stacks[i], path, side, i)
        for side, stacks, paths, rows in (
            (0, base, paths_base, left_base),
            (1, new, paths_new, left_new),
        )
        for i in rows
        for path in [paths[i]]
    ]
    # Those that the other side could have had as they are come first. Nothing that was there all
    # along took their place: they are gone or new, unless what was split off them is left, too.
    for whole in (True, False):
        for stack, path, side, i in left:
            kept = [at for at, site in enumerate(path) if site in common]
            if (len(kept) == len(path)) is not whole:
                continue
            known = tuple(path[at] for at in kept)
            match = by_path.get(known) if known and not whole else None
            if match is None:
                match = Match(tuple(stack[at] for at in kept))
                found.append(match)
                if known:
                    by_path[known] = match
            (match.new if side else match.base).append(i)
    for one in found:
        if len(one.base) + len(one.new) == 1:
            # It found no other: it is shown as it is.
            one.frames = base[one.base[0]] if one.base else new[one.new[0]]
    return found


def align_paths(base: set[str], new: set[str]) -> dict[str, str]:
    """Files of the new side that are called otherwise in the base: new path → base path.

    Only paths that one side alone has. Those of the same last part are candidates; the longest
    common end wins, and of equal ones the pair of roots that most files agree on.
    """
    only_base = _by_name(base - new)
    only_new = _by_name(new - base)
    candidates = []
    roots: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
    for name in only_base.keys() & only_new.keys():
        for old in only_base[name]:
            for path in only_new[name]:
                a, b = tuple(old.split("/")), tuple(path.split("/"))
                same = _common_end(a, b)
                root = a[: len(a) - same], b[: len(b) - same]
                roots[root] += 1
                candidates.append((same, root, old, path))
    candidates.sort(key=lambda one: (-one[0], -roots[one[1]], one[2], one[3]))
    aligned: dict[str, str] = {}
    taken: set[str] = set()
    for _, _, old, path in candidates:
        if path not in aligned and old not in taken:
            aligned[path] = old
            taken.add(old)
    return aligned


MOST_OF_A_NAME = 64  # files of one name that are compared each with each


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        name = path.rpartition("/")[2]
        if name and name != "??" and len(found[name]) < MOST_OF_A_NAME:
            found[name].append(path)
    return found


def _common_end(a: Sequence[str], b: Sequence[str]) -> int:
    same = 0
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x != y:
            break
        same += 1
    return same
