"""Match stacks of two snapshots that are the same code, even if lines, paths or names changed.

A stack is attributed to a location, its innermost user line. Stacks only match if their locations
do, so that each line's bytes are compared with the same line's. Stacks with the same location are
distinguished by their callers, and then by the operators that ran. Frames in between (PyTorch's
wrappers, Python's) change independently of the user's code. If a location exists on one side only
(e.g. because a function was split or inlined), its stacks match through the nearest common caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from memreplay.analysis.comparing.code import Code, Indices, One, Path, Stack, Stacks, Way, users_of
from memreplay.analysis.comparing.lines import MOST_IN_ORDER

MOST_UNLIKE = 4  # maximum ratio between the bytes of replaced code and of its replacement


@dataclass(slots=True)
class Match:
    """Indices of stacks in the base and the new snapshot that are the same code.

    `frames` are the frames that the stacks have in common, and `user` has the indices of user
    frames among them. With one stack per side, `frames` is the new side's whole stack. With
    several, it's the location and the common callers. If the stacks' locations differ, it's only
    the common callers, and `below` is true.
    """

    frames: Stack
    base: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    user: Indices = ()
    below: bool = False


def match_stacks(
    base: Sequence[Stack] | Stacks, new: Sequence[Stack] | Stacks, *, exact: bool = False
) -> list[Match]:
    """Match the stacks of both sides; every stack is in exactly one match. Empty stacks match each
    other.

    `exact`: only match identical stacks.
    """
    ours = base if isinstance(base, Stacks) else Stacks(base)
    theirs = new if isinstance(new, Stacks) else Stacks(new)
    if exact:
        return _same_lines(ours, theirs)
    code = Code(ours, theirs)
    found: list[Match] = []
    left: list[One] = []
    for at_place in _grouped(code.all(), lambda one: (one.kind, one.place)):
        if len({one.side for one in at_place}) == 1:
            left += at_place
        else:
            found += _at_place(code, at_place)
    return found + _by_callers(code, left)


def same_functions(base: Sequence[Stack], new: Sequence[Stack]) -> list[bool]:
    """Return for each new stack whether the base has one with the same functions and files."""
    code = Code(Stacks(base), Stacks(new))
    known = {tuple(code.site_of[at] for at in one.path) for one in code.base}
    return [tuple(code.site_of[at] for at in one.path) in known for one in code.new]


def _same_lines(base: Stacks, new: Stacks) -> list[Match]:
    found: dict[tuple[str, Stack], Match] = {}
    for side, stacks in enumerate((base, new)):
        users = stacks.users or [users_of(stack) for stack in stacks.stacks]
        for i, stack in enumerate(stacks.stacks):
            kind = stacks.kinds[i] if stacks.kinds else ""
            match = found.setdefault((kind, stack), Match(stack, user=users[i]))
            (match.new if side else match.base).append(i)
    return list(found.values())


def _grouped(some: Iterable[One], key: Callable[[One], Hashable]) -> list[list[One]]:
    found: dict[Hashable, list[One]] = defaultdict(list)
    for one in some:
        found[key(one)].append(one)
    return list(found.values())


def _at_place(code: Code, some: list[One]) -> list[Match]:
    """Match the stacks with one location, using weaker and weaker criteria."""
    done: dict[Hashable, list[One]] = {}
    groups, some = _by_offsets(code, some)
    keys: tuple[Callable[[One], Hashable], ...] = (
        lambda one: one.path,
        lambda one: (one.user, code.ran(one)),
        lambda one: (one.user, code.operator(one)),
        lambda one: one.user,
        lambda one: (code.known(one), code.ran(one)),
        code.known,
        lambda one: (code.way(one), code.ran(one)),
        code.way,
    )
    for key in keys:
        left: list[One] = []
        for group in _grouped(some, key):
            if len({one.side for one in group}) == 2:
                groups.append(group)
            else:
                left += group
        some = left
        if len({one.side for one in some}) < 2:
            break
    else:
        found, some = _deeper(code, some)
        groups += found
        of_operators, some = _grouped(some, code.operator), []
        for detail in of_operators:
            found, left = _cut_short(code, detail)
            groups += found
            some += left
        found, some = _cut_short(code, some)
        groups += found
    alike = code.way if code.sized else code.functions
    for group in groups:
        done.setdefault(alike(group[0]), group)
    alone = []
    for one in some:
        group = done.get(alike(one), [])
        reduced = len(code.known(one)) < len(one.user)
        if group and reduced and _settles(group, one):
            group.append(one)
        else:
            alone.append([one])
    return [_match(code, group) for group in (*groups, *alone)]


def _by_offsets(code: Code, some: list[One]) -> tuple[list[list[One]], list[One]]:
    """Group stacks that differ only in offsets within C++ functions, and return the rest.

    Equal offsets match first; if functions moved, offsets match in order.
    """
    groups: list[list[One]] = []
    left: list[One] = []
    for alike in _grouped(some, lambda one: one.path):
        sides = [[one for one in alike if one.side == side] for side in (0, 1)]
        if not all(sides):
            left += alike
            continue
        offsets = [{code.offsets(one) for one in side} for side in sides]
        moved = not (offsets[0] <= offsets[1] or offsets[1] <= offsets[0])
        if moved and len(sides[0]) == len(sides[1]):
            in_order = (sorted(side, key=code.offsets) for side in sides)
            groups += map(list, zip(*in_order, strict=True))
            continue
        for group in _grouped(alike, code.offsets):
            if len({one.side for one in group}) == 2:
                groups.append(group)
            else:
                left += group
    return groups, left


def _deeper(code: Code, some: list[One]) -> tuple[list[list[One]], list[One]]:
    """Group stacks with the same functions if one stack has all calls of the other plus deeper
    recursion, or if both stacks hold the same bytes. Return the groups and the rest.
    """
    groups: list[list[One]] = []
    left: list[One] = []
    for alike in _grouped(some, code.functions):
        ours, theirs = ([one for one in alike if one.side == side] for side in (0, 1))
        if max(len(ours), len(theirs)) > MOST_IN_ORDER:
            left += alike
            continue
        for one in ours:
            way = code.way(one)
            within = (o for o in theirs if _within(way, code.way(o)))
            equal = (o for o in theirs if o.n_bytes == one.n_bytes)
            other = next(chain(within, equal), None)
            if other is None:
                left.append(one)
            else:
                groups.append([one, other])
                theirs.remove(other)
        left += theirs
    return groups, left


def _within(one: Way, other: Way) -> bool:
    """Return whether the longer path contains the shorter path's steps in the same order."""
    short, long = sorted((one, other), key=len)
    steps = iter(long)
    return all(step in steps for step in short)


def _cut_short(code: Code, some: list[One]) -> tuple[list[list[One]], list[One]]:
    """Group stacks that start with a whole stack of the other side, without its outer callers.
    Return the groups and the rest.

    Outer callers are missing if a new thread made the call, as when a checkpoint is recomputed.
    """
    ends: dict[Way, set[int]] = defaultdict(set)
    paths = [code.way(one) for one in some]
    for one, path in zip(some, paths, strict=True):
        ends[path].add(one.side)
    found: dict[Way, list[One]] = defaultdict(list)
    left: list[One] = []
    for one, path in zip(some, paths, strict=True):
        for n in range(len(path) - 1, 0, -1):
            if 1 - one.side in ends.get(path[:n], ()):
                found[path[:n]].append(one)
                break
        else:
            left.append(one)
    still = []
    for one in left:
        path = code.way(one)
        if path in found and any(other.side != one.side for other in found[path]):
            found[path].append(one)
        else:
            still.append(one)
    groups = []
    for group in found.values():
        if len({one.side for one in group}) == 2:
            groups.append(group)
        else:
            still += group
    return groups, still


def _settles(group: list[One], one: One) -> bool:
    """Return whether adding a stack to a group makes the group's bytes on both sides more similar.
    This happens if the stack's code was split off from the group's code.
    """
    if one.n_bytes is None:
        return True
    sums = [0, 0]
    for other in group:
        sums[other.side] += other.n_bytes or 0
    before = abs(sums[1] - sums[0])
    sums[one.side] += one.n_bytes
    return abs(sums[1] - sums[0]) < before


def _by_callers(code: Code, some: list[One]) -> list[Match]:
    """Match stacks whose locations exist on one side only, by their common callers."""
    found: list[Match] = []
    for group in _grouped(some, lambda one: (one.kind, code.callers(one) or (one.side, one.index))):
        if len({one.side for one in group}) == 2 and _took_its_place(group):
            found.append(_match(code, group, below=True))
        else:
            found += [_match(code, [one]) for one in group]
    return found


def _took_its_place(group: list[One]) -> bool:
    """Return whether code on one side may have replaced code on the other, judging by bytes.

    Split or inlined code holds about the same number of bytes. If one side holds next to nothing,
    the other side's bytes stay with their own lines and aren't attributed to a caller.
    """
    sums = [0, 0]
    for one in group:
        if one.n_bytes is None:
            return True
        sums[one.side] += one.n_bytes
    return min(sums) * MOST_UNLIKE >= max(sums)


def _match(code: Code, group: list[One], *, below: bool = False) -> Match:
    """Build a group's match from what its stacks have in common."""
    base = sorted(one.index for one in group if not one.side)
    new = sorted(one.index for one in group if one.side)
    shown = next((one for one in group if one.side), group[0])
    if below:
        frames, user = _common(code, group, code.callers)
    elif len(base) <= 1 and len(new) <= 1 and _ran_alike(code, group):
        frames, user = code.stack(shown), shown.users
    else:
        frames, user = _common(code, group, code.known)
    return Match(frames, base, new, user, below)


def _ran_alike(code: Code, group: list[One]) -> bool:
    return len({code.operator(one) for one in group}) == 1


def _common(code: Code, group: list[One], path_of: Callable[[One], Path]) -> tuple[Stack, Indices]:
    """Return the outer lines that both sides have, and the frames below these lines if both sides
    have the same.
    """
    paths = [path_of(one) for one in group]
    n = 0
    while all(len(path) > n and path[n] == paths[0][n] for path in paths):
        n += 1
    shown = next((one for one in group if one.side), group[0])
    wanted = list(paths[group.index(shown)][:n])
    stack = code.stack(shown)
    if not wanted:  # the stack has no user code
        return tuple(stack[i] for i in shown.places), ()
    kept = []
    for i in shown.users:
        if wanted and shown.path[i] == wanted[0]:
            kept.append(i)
            wanted.pop(0)
    ran: tuple[int, ...] = ()
    if path_of == code.known and code.operator(shown) and _ran_alike(code, group):
        ran = tuple(i for i in range(kept[0]) if i not in shown.users)
    frames = tuple(stack[i] for i in (*ran, *kept))
    return frames, tuple(range(len(ran), len(frames)))
