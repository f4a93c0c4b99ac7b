"""Number the lines of two snapshots so that equal numbers mean the same code.

Functions (sites) and lines are aligned first, using all evidence. Then stacks are compared by
lines, functions, operators, or common callers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from memreplay.analysis.code.operators import operator_in, outermost_operator
from memreplay.analysis.code.plumbing import LIBRARY, code_of, file_rank
from memreplay.analysis.comparing.lines import align_files
from memreplay.analysis.comparing.sites import Calls, Site, same_sites
from memreplay.snapshot.model import Frame

Stack = tuple[Frame, ...]  # innermost first
Indices = tuple[int, ...]
Path = tuple[int, ...]  # line or site numbers
Way = tuple[tuple[int, int], ...]  # one line or site per call, innermost first

# Suffixes of Python and C++ source files. The "line numbers" of other files aren't source lines.
_PYTHON_FILE = re.compile(r"\.py[cw]?$|^<")


@dataclass(slots=True)
class Stacks:
    """The stacks of one side.

    Only stacks of the same kind match. `users`: each stack's user frames. `places`: the frames that
    stacks are attributed to. If `users` or `places` is None, it follows from file names. `n_bytes`:
    bytes per stack. `seen`: further recorded frames, which show that code exists even if it holds
    nothing.
    """

    stacks: Sequence[Stack]
    n_bytes: Sequence[int] | None = None
    kinds: Sequence[str] | None = None
    users: Sequence[Indices] | None = None
    places: Sequence[Indices] | None = None
    seen: Iterable[Frame] = ()


def users_of(stack: Stack) -> Indices:
    return code_of([file_rank(frame.file) for frame in stack])[0]


def operator_below(frames: Sequence[Frame], user: Indices) -> str:
    """Return the operator that user code called, which is the outermost one below it, or ""."""
    return outermost_operator(frames[: user[0]] if user else frames)


class One:
    """A stack as numbers that stand for lines; the same line has the same number on both sides."""

    __slots__ = ("index", "kind", "n_bytes", "path", "place", "places", "side", "user", "users")

    def __init__(self, side: int, index: int, of: Stacks, path: Path) -> None:
        stack = of.stacks[index]
        self.side = side
        self.index = index
        self.kind = of.kinds[index] if of.kinds else ""
        self.n_bytes = of.n_bytes[index] if of.n_bytes else None
        self.path = path
        self.users = of.users[index] if of.users else users_of(stack)
        self.places = of.places[index] if of.places else self.users[:1] or (0,) * bool(stack)
        self.place = tuple(path[i] for i in self.places)
        self.user = tuple(path[i] for i in self.users)


class Code:
    """The numbered sites and lines of both sides, and their stacks."""

    def __init__(self, base: Stacks, new: Stacks) -> None:
        self.sides = base, new
        self.sized = base.n_bytes is not None and new.n_bytes is not None
        self.site_of: list[int] = []  # indexed by line, like all lists below
        # Whether the line is in a lambda or comprehension, which counts as part of the enclosing
        # function.
        self.inner: list[bool] = []
        self.operators: list[str] = []
        self.has_lines: list[bool] = []
        self._lines: dict[tuple[Site, Hashable], int] = {}
        self._sites: dict[Site, int] = {}
        named = self._named()
        lines = self._aligned(named)
        self.base, self.new = (self._numbered(side, named[side], lines[side]) for side in (0, 1))
        there = [{at for one in of for at in one.path} for of in (self.base, self.new)]
        for side, of in enumerate(self.sides):
            there[side] |= {self._of_frame(f, named[side], lines[side]) for f in of.seen}
        self.both = there[0] & there[1]  # lines that occur on both sides
        sites = [{self.site_of[at] for at in one} for one in there]
        self.common = sites[0] & sites[1]  # functions that occur on both sides

    def all(self) -> Iterator[One]:
        """Iterate over the stacks of both sides: first the new side's, in order, then the
        base's.
        """
        return chain(self.new, self.base)

    def stack(self, one: One) -> Stack:
        """Return a stack's frames."""
        return self.sides[one.side].stacks[one.index]

    def _named(self) -> tuple[dict[Site, Site], dict[Site, Site]]:
        """Return canonical names for each side's sites."""
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
        """Return canonical names for the lines of each side, so that the same line has the same
        name.
        """
        files = [_lines(of, named[side]) for side, of in enumerate(self.sides)]
        called: list[dict[tuple[Site, int], Hashable]] = [{}, {}]
        for file, aligned in align_files(files[0], files[1], sized=self.sized).items():
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
    ) -> list[One]:
        of = self.sides[side]
        # Line numbers by frame identity, so that each frame is hashed only once rather than once
        # per stack.
        numbers: dict[int, int] = {}
        found = []
        for index, stack in enumerate(of.stacks):
            path = []
            for frame in stack:
                number = numbers.get(id(frame))
                if number is None:
                    number = numbers[id(frame)] = self._of_frame(frame, named, lines)
                path.append(number)
            found.append(One(side, index, of, tuple(path)))
        return found

    def _of_frame(
        self, frame: Frame, named: dict[Site, Site], lines: dict[tuple[Site, int], Hashable]
    ) -> int:
        site = named[frame.file, frame.function]
        has_lines = _has_lines(frame.file)
        line = lines.get((site, frame.line), frame.line) if has_lines else None
        number = self._lines.setdefault((site, line), len(self.site_of))
        if number == len(self.site_of):
            self.site_of.append(self._site(site))
            self.has_lines.append(has_lines)
            name = frame.function.rpartition(".")[2]
            self.inner.append(name.startswith("<") and name != "<module>")
            self.operators.append(operator_in(frame.function))
        return number

    def _site(self, site: Site) -> int:
        return self._sites.setdefault(site, len(self._sites))

    # ---- the parts of a stack to compare

    def offsets(self, one: One) -> tuple[int, ...]:
        """Return the offsets of frames in functions without source lines."""
        return tuple(
            frame.line
            for frame, at in zip(self.stack(one), one.path, strict=True)
            if not self.has_lines[at]
        )

    def ran(self, one: One) -> tuple[str, ...]:
        """Return the operators, innermost first, with recursion collapsed."""
        found: list[str] = []
        for at in one.path[: one.users[0] if one.users else None]:
            name = self.operators[at]
            if name and (not found or found[-1] != name):
                found.append(name)
        return tuple(found)

    def operator(self, one: One) -> str:
        """Return the operator that user code called."""
        return next(reversed(self.ran(one)), "")

    def known(self, one: One) -> Path:
        """Return the user's lines that both sides may have. These always include the stack's
        location.
        """
        return tuple(
            at
            for at in one.user
            if at in one.place or (self.site_of[at] in self.common and not self.inner[at])
        )

    def way(self, one: One) -> Way:
        """Return the `known` lines. A line that only one side has is replaced by its function,
        because the line may have a different number on the other side.
        """
        return tuple(
            (at, -1) if at in self.both else (-1, self.site_of[at]) for at in self.known(one)
        )

    def functions(self, one: One) -> Path:
        """Return the functions of `known` lines, counting direct recursion once."""
        found: list[int] = []
        for at in self.known(one):
            site = self.site_of[at]
            if not found or found[-1] != site:
                found.append(site)
        return tuple(found)

    def callers(self, one: One) -> Path:
        """Return the user's lines in functions that both sides have. Direct recursion contributes
        only the outermost line.
        """
        found: list[int] = []
        for at in one.user:
            site = self.site_of[at]
            if site not in self.common or self.inner[at]:
                continue
            if found and self.site_of[found[-1]] == site:
                found.pop()
            found.append(at)
        return tuple(found)


def _lines(of: Stacks, named: dict[Site, Site]) -> dict[str, dict[str, dict[int, int | None]]]:
    """Return lines by file and function, with the bytes attributed to each.

    A line that only calls other code gets the bytes allocated below it.
    """
    held: Counter[int] = Counter()  # by frame identity, so that each frame is hashed only once
    led_to: Counter[int] = Counter()
    if of.n_bytes is not None:
        for stack, n_bytes, places in zip(of.stacks, of.n_bytes, _places(of), strict=True):
            for at in {id(stack[i]) for i in places}:
                held[at] += n_bytes
            for at in {id(frame) for frame in stack}:
                led_to[at] += n_bytes
    sums: dict[Site, dict[int, list[int | None]]] = defaultdict(dict)
    for frame in _distinct(of):
        if _has_lines(frame.file):
            both = sums[named[frame.file, frame.function]].setdefault(frame.line, [None, None])
            for i, known in enumerate((held, led_to)):
                n = known.get(id(frame))
                if n is not None:
                    both[i] = (both[i] or 0) + n
    found: dict[str, dict[str, dict[int, int | None]]] = defaultdict(dict)
    for (file, function), lines in sums.items():
        found[file][function] = {
            line: own if own is not None else through for line, (own, through) in lines.items()
        }
    return found


def _distinct(of: Stacks) -> Iterable[Frame]:
    frames = {id(frame): frame for stack in of.stacks for frame in stack}
    frames |= {id(frame): frame for frame in of.seen}
    return frames.values()


def _places(of: Stacks) -> Iterator[Indices]:
    if of.places is not None:
        yield from of.places
        return
    for stack in of.stacks:
        yield users_of(stack)[:1] or (0,) * bool(stack)


@lru_cache(maxsize=4096)
def _has_lines(file: str) -> bool:
    return file_rank(file) <= LIBRARY or _PYTHON_FILE.search(file) is not None


def _calls(of: Stacks, sites: Iterable[Site]) -> Calls:
    found: Calls = {site: set() for site in sites}
    pairs = {}
    for stack in of.stacks:
        for inner, outer in pairwise(stack):
            pairs[id(inner), id(outer)] = inner, outer
    for inner, outer in pairs.values():
        found[inner.file, inner.function].add((outer.file, outer.function))
    return found
