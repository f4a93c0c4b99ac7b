"""Which call stacks of two snapshots are the same code, though lines, paths or names have changed.

A stack is put down to a place: its innermost line of the user's own code. Stacks of one place match
each other and no others, so that what is said of a line is what both snapshots say of it. Within a
place the callers tell stacks apart, and after them the operators that ran; what stands between
(PyTorch's wrappers, Python's frames) comes and goes without any change of the user's code. What one
side alone has at a place, because a function was split off or inlined, lands on the nearest caller
that both know.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from memreplay.analysis.lines import align_files
from memreplay.analysis.plumbing import USER, file_rank
from memreplay.analysis.sites import Calls, Site, same_sites
from memreplay.model import Frame

Stack = tuple[Frame, ...]  # innermost first
Indices = tuple[int, ...]
Path = tuple[int, ...]  # numbers of lines, or of sites

_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\b")
_PYTHON_FILE = re.compile(r"\.py[cw]?$|^<")  # of others, lines are no lines of a source


@dataclass(slots=True)
class Match:
    """Stacks of the base and of the new snapshot, by index, that are the same code.

    `frames` is what all of them have in common, and `user` which of it is the user's own: of one
    stack a side the whole stack of the new side; of several, the place with the callers that all
    share; where the places differ, the callers alone, and then it is `below` these.
    """

    frames: Stack
    base: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    user: Indices = ()
    below: bool = False


@dataclass(slots=True)
class Stacks:
    """The stacks of one side.

    Only stacks of one kind match. `users` are the frames of each that are the user's own, `places`
    those that it is put down to; where they are None, file names tell. `n_bytes` are what each
    holds, and `seen` are frames that the side has recorded besides: they show which code is still
    there, though it holds nothing.
    """

    stacks: Sequence[Stack]
    n_bytes: Sequence[int] | None = None
    kinds: Sequence[str] | None = None
    users: Sequence[Indices] | None = None
    places: Sequence[Indices] | None = None
    seen: Iterable[Frame] = ()


def match_stacks(
    base: Sequence[Stack] | Stacks, new: Sequence[Stack] | Stacks, *, exact: bool = False
) -> list[Match]:
    """Every stack of both sides in one match; empty stacks match each other.

    `exact` takes nothing but equal stacks, line for line.
    """
    ours = base if isinstance(base, Stacks) else Stacks(base)
    theirs = new if isinstance(new, Stacks) else Stacks(new)
    if exact:
        return _same_lines(ours, theirs)
    code = _Code(ours, theirs)
    found: list[Match] = []
    left: list[_One] = []
    for at_place in _grouped(code.all(), lambda one: (one.kind, one.place)):
        if len({one.side for one in at_place}) == 1:
            left += at_place
        else:
            found += _at_place(code, at_place)
    return found + _by_callers(code, left)


def same_functions(base: Sequence[Stack], new: Sequence[Stack]) -> list[bool]:
    """Of each stack of the new side, whether the base has one of the same functions and files."""
    code = _Code(Stacks(base), Stacks(new))
    known = {tuple(code.site_of[at] for at in one.path) for one in code.base}
    return [tuple(code.site_of[at] for at in one.path) in known for one in code.new]


def _same_lines(base: Stacks, new: Stacks) -> list[Match]:
    found: dict[tuple[str, Stack], Match] = {}
    for side, stacks in enumerate((base, new)):
        users = stacks.users or [_users(stack) for stack in stacks.stacks]
        for i, stack in enumerate(stacks.stacks):
            kind = stacks.kinds[i] if stacks.kinds else ""
            match = found.setdefault((kind, stack), Match(stack, user=users[i]))
            (match.new if side else match.base).append(i)
    return list(found.values())


def _users(stack: Stack) -> Indices:
    return tuple(i for i, frame in enumerate(stack) if file_rank(frame.file) == USER)


def operator_below(frames: Sequence[Frame], user: Indices) -> str:
    """The operator that the user's code called: the outermost below it; else empty."""
    below = frames[: user[0]] if user else frames
    return next(filter(None, (_operator(frame.function) for frame in reversed(below))), "")


def _operator(function: str) -> str:
    found = _OPERATOR.search(function) if "::" in function else None
    return found[1] if found else ""


# ---- the code of both sides


class _One:
    """A stack as numbers: equal numbers are the same line of the same code, on either side."""

    __slots__ = ("index", "kind", "n_bytes", "path", "place", "places", "side", "user", "users")

    def __init__(self, side: int, index: int, of: Stacks, path: Path) -> None:
        stack = of.stacks[index]
        self.side = side
        self.index = index
        self.kind = of.kinds[index] if of.kinds else ""
        self.n_bytes = of.n_bytes[index] if of.n_bytes else None
        self.path = path
        self.users = of.users[index] if of.users else _users(stack)
        self.places = of.places[index] if of.places else self.users[:1] or (0,) * bool(stack)
        self.place = tuple(path[i] for i in self.places)
        self.user = tuple(path[i] for i in self.users)


class _Code:
    """The sites and lines of both sides, numbered, and the stacks in these numbers."""

    def __init__(self, base: Stacks, new: Stacks) -> None:
        self.sides = base, new
        self.site_of: list[int] = []  # of each line, as all that follow
        self.inner: list[bool] = []  # a lambda or a comprehension: a part of the function around it
        self.operators: list[str] = []
        self.has_lines: list[bool] = []
        self._lines: dict[tuple[Site, Hashable], int] = {}
        self._sites: dict[Site, int] = {}
        named = self._named()
        lines = self._aligned(named)
        self.base, self.new = (self._numbered(side, named[side], lines[side]) for side in (0, 1))
        sites = [
            {self.site_of[at] for one in of for at in one.path} for of in (self.base, self.new)
        ]
        for side, of in enumerate(self.sides):
            sites[side] |= {self._site(named[side][f.file, f.function]) for f in of.seen}
        self.common = sites[0] & sites[1]

    def all(self) -> Iterator[_One]:
        """The stacks of both sides, the new side's order first."""
        return chain(self.new, self.base)

    def stack(self, one: _One) -> Stack:
        """The frames of one."""
        return self.sides[one.side].stacks[one.index]

    def _named(self) -> tuple[dict[Site, Site], dict[Site, Site]]:
        """What to call the sites of each side."""
        lines: list[dict[Site, set[int]]] = []
        for of in self.sides:
            found: dict[Site, set[int]] = defaultdict(set)
            for frame in _distinct(of):
                found[frame.file, frame.function].add(frame.line)
            lines.append(found)
        return same_sites(
            set(lines[0]),
            set(lines[1]),
            lambda: (_calls(self.sides[0], lines[0]), _calls(self.sides[1], lines[1])),
            (lines[0], lines[1]),
        )

    def _aligned(
        self, named: tuple[dict[Site, Site], dict[Site, Site]]
    ) -> list[dict[tuple[Site, int], Hashable]]:
        """What to call the lines of each side, where it is not by their number."""
        files: list[dict[str, dict[str, dict[int, int | None]]]] = []
        for side, of in enumerate(self.sides):
            lines: dict[str, dict[str, dict[int, int | None]]] = defaultdict(
                lambda: defaultdict(dict)
            )
            for frame in _distinct(of):
                file, function = named[side][frame.file, frame.function]
                if _has_lines(frame.file):
                    lines[file][function].setdefault(frame.line, None)
            if of.n_bytes is not None:
                for stack, n_bytes, at in zip(of.stacks, of.n_bytes, _places(of), strict=True):
                    for i in at:
                        file, function = named[side][stack[i].file, stack[i].function]
                        if _has_lines(stack[i].file):
                            held = lines[file][function]
                            held[stack[i].line] = (held[stack[i].line] or 0) + n_bytes
            files.append(lines)
        called: list[dict[tuple[Site, int], Hashable]] = [{}, {}]
        sized = self.sides[0].n_bytes is not None
        for file, aligned in align_files(files[0], files[1], sized=sized).items():
            for (function, line), old in aligned.base.items():
                called[0][(file, function), line] = old
            for function, lines_of in files[1][file].items():
                for line in lines_of:
                    old_line: Hashable = aligned.new.get((function, line))
                    called[1][(file, function), line] = (
                        ("new", line) if old_line is None else old_line
                    )
        return called

    def _numbered(
        self, side: int, named: dict[Site, Site], lines: dict[tuple[Site, int], Hashable]
    ) -> list[_One]:
        of = self.sides[side]
        numbers: dict[int, int] = {}  # a frame is hashed once, not once a stack
        found = []
        for index, stack in enumerate(of.stacks):
            path = []
            for frame in stack:
                number = numbers.get(id(frame))
                if number is None:
                    site = named[frame.file, frame.function]
                    has_lines = _has_lines(frame.file)
                    line = lines.get((site, frame.line), frame.line) if has_lines else None
                    number = self._number(site, line, frame.function, has_lines)
                    numbers[id(frame)] = number
                path.append(number)
            found.append(_One(side, index, of, tuple(path)))
        return found

    def _number(self, site: Site, line: Hashable, function: str, has_lines: bool) -> int:
        number = self._lines.setdefault((site, line), len(self.site_of))
        if number == len(self.site_of):
            self.site_of.append(self._site(site))
            self.has_lines.append(has_lines)
            name = function.rpartition(".")[2]
            self.inner.append(name.startswith("<") and name != "<module>")
            self.operators.append(_operator(function))
        return number

    def _site(self, site: Site) -> int:
        return self._sites.setdefault(site, len(self._sites))

    # ---- what of a stack is compared

    def offsets(self, one: _One) -> tuple[int, ...]:
        """Where in their functions those were that have no lines of a source."""
        return tuple(
            frame.line
            for frame, at in zip(self.stack(one), one.path, strict=True)
            if not self.has_lines[at]
        )

    def ran(self, one: _One) -> tuple[str, ...]:
        """The operators that ran, the innermost first; once where one only calls itself on."""
        found: list[str] = []
        for at in one.path[: one.users[0] if one.users else None]:
            name = self.operators[at]
            if name and (not found or found[-1] != name):
                found.append(name)
        return tuple(found)

    def operator(self, one: _One) -> str:
        """The one that the user's code called."""
        return next(reversed(self.ran(one)), "")

    def known(self, one: _One) -> Path:
        """The lines of the user's that both sides may have; the place is always among them."""
        return tuple(
            at
            for at in one.user
            if at in one.place or (self.site_of[at] in self.common and not self.inner[at])
        )

    def functions(self, one: _One) -> Path:
        """The functions of these; a recursion counts once, however deep."""
        found: list[int] = []
        for at in self.known(one):
            site = self.site_of[at]
            if not found or found[-1] != site:
                found.append(site)
        return tuple(found)

    def callers(self, one: _One) -> Path:
        """The lines that both sides may have, without the place where its function is on one side
        alone; of a recursion the outermost."""
        found: list[int] = []
        for at in one.user:
            site = self.site_of[at]
            if site not in self.common or self.inner[at]:
                continue
            if found and self.site_of[found[-1]] == site:
                found.pop()
            found.append(at)
        return tuple(found)


def _distinct(of: Stacks) -> Iterable[Frame]:
    frames = {id(frame): frame for stack in of.stacks for frame in stack}
    return chain(frames.values(), of.seen)


def _places(of: Stacks) -> Iterator[Indices]:
    if of.places is not None:
        yield from of.places
        return
    for stack in of.stacks:
        yield _users(stack)[:1] or (0,) * bool(stack)


def _has_lines(file: str) -> bool:
    return file_rank(file) == USER or _PYTHON_FILE.search(file) is not None


def _calls(of: Stacks, sites: Iterable[Site]) -> Calls:
    found: Calls = {site: set() for site in sites}
    pairs = {}
    for stack in of.stacks:
        for inner, outer in pairwise(stack):
            pairs[id(inner), id(outer)] = inner, outer
    for inner, outer in pairs.values():
        found[inner.file, inner.function].add((outer.file, outer.function))
    return found


# ---- matching


def _grouped(some: Iterable[_One], key: Callable[[_One], Hashable]) -> list[list[_One]]:
    found: dict[Hashable, list[_One]] = defaultdict(list)
    for one in some:
        found[key(one)].append(one)
    return list(found.values())


def _at_place(code: _Code, some: list[_One]) -> list[Match]:
    """Matches of the stacks of one place: by what is most alike, and then by less and less."""
    done: dict[Path, list[_One]] = {}
    groups, some = _by_offsets(code, some)
    keys: tuple[Callable[[_One], Hashable], ...] = (
        lambda one: one.path,
        lambda one: (one.user, code.ran(one)),
        lambda one: (one.user, code.operator(one)),
        lambda one: one.user,
        lambda one: (code.known(one), code.ran(one)),
        code.known,
        lambda one: (code.functions(one), code.ran(one)),
        code.functions,
    )
    for key in keys:
        left: list[_One] = []
        for group in _grouped(some, key):
            if len({one.side for one in group}) == 2:
                groups.append(group)
            else:
                left += group
        some = left
        if len({one.side for one in some}) < 2:
            break
    else:
        cut, some = _cut_short(code, some)
        groups += cut
    for group in groups:
        done.setdefault(code.functions(group[0]), group)
    alone = []
    for one in some:
        group = done.get(code.functions(one), [])
        reduced = len(code.known(one)) < len(one.user)
        if group and reduced and _settles(group, one):
            group.append(one)
        else:
            alone.append([one])
    return [_match(code, group) for group in (*groups, *alone)]


def _by_offsets(code: _Code, some: list[_One]) -> tuple[list[list[_One]], list[_One]]:
    """Groups of the stacks that are the same but for where in functions of C++ they were: by equal
    offsets, or by their order where the functions have others now; and what is left."""
    groups: list[list[_One]] = []
    left: list[_One] = []
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


def _cut_short(code: _Code, some: list[_One]) -> tuple[list[list[_One]], list[_One]]:
    """Groups of stacks of which one side's end within the other's: the thread began there, as that
    in which a checkpoint is computed again; and what is left."""
    ends: dict[Path, set[int]] = defaultdict(set)
    paths = [code.functions(one) for one in some]
    for one, path in zip(some, paths, strict=True):
        ends[path].add(one.side)
    found: dict[Path, list[_One]] = defaultdict(list)
    left: list[_One] = []
    for one, path in zip(some, paths, strict=True):
        for n in range(len(path) - 1, 0, -1):
            if 1 - one.side in ends.get(path[:n], ()):
                found[path[:n]].append(one)
                break
        else:
            left.append(one)
    still = []
    for one in left:
        path = code.functions(one)
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


def _settles(group: list[_One], one: _One) -> bool:
    """Whether a stack makes up for what changed in the group, as what was split off it does."""
    if one.n_bytes is None:
        return True
    sums = [0, 0]
    for other in group:
        sums[other.side] += other.n_bytes or 0
    before = abs(sums[1] - sums[0])
    sums[one.side] += one.n_bytes
    return abs(sums[1] - sums[0]) < before


def _by_callers(code: _Code, some: list[_One]) -> list[Match]:
    """Matches of stacks whose places one side alone has: by the callers that both know."""
    found: list[Match] = []
    for group in _grouped(some, lambda one: (one.kind, code.callers(one) or (one.side, one.index))):
        if len({one.side for one in group}) == 2:
            found.append(_match(code, group, below=True))
        else:
            found += [_match(code, [one]) for one in group]
    return found


def _match(code: _Code, group: list[_One], *, below: bool = False) -> Match:
    """The match of a group, with what its stacks have in common."""
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


def _ran_alike(code: _Code, group: list[_One]) -> bool:
    return len({code.operator(one) for one in group}) == 1


def _common(
    code: _Code, group: list[_One], path_of: Callable[[_One], Path]
) -> tuple[Stack, Indices]:
    """The lines that all begin with, and what ran below them, where that is the same."""
    paths = [path_of(one) for one in group]
    n = 0
    while all(len(path) > n and path[n] == paths[0][n] for path in paths):
        n += 1
    shown = next((one for one in group if one.side), group[0])
    wanted = list(paths[group.index(shown)][:n])
    stack = code.stack(shown)
    if not wanted:  # nothing of the user's
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
