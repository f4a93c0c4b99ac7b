"""The stacks of two snapshots as numbers: equal numbers are the same line of the same code.

Sites and lines are aligned first, with all the evidence there is; then a stack is compared by what
is asked for: its lines, its functions, the operators that ran, the callers that both sides know.
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
Path = tuple[int, ...]  # numbers of lines, or of sites
Way = tuple[tuple[int, int], ...]  # of each step the line, or the site

_PYTHON_FILE = re.compile(r"\.py[cw]?$|^<")  # of others, lines are no lines of a source


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


def users_of(stack: Stack) -> Indices:
    return code_of([file_rank(frame.file) for frame in stack])[0]


def operator_below(frames: Sequence[Frame], user: Indices) -> str:
    """The operator that the user's code called: the outermost below it; else empty."""
    return outermost_operator(frames[: user[0]] if user else frames)


class One:
    """A stack as numbers: equal numbers are the same line of the same code, on either side."""

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
    """The sites and lines of both sides, numbered, and the stacks in these numbers."""

    def __init__(self, base: Stacks, new: Stacks) -> None:
        self.sides = base, new
        self.sized = base.n_bytes is not None and new.n_bytes is not None
        self.site_of: list[int] = []  # of each line, as all that follow
        self.inner: list[bool] = []  # a lambda or a comprehension: a part of the function around it
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
        self.both = there[0] & there[1]  # lines that both sides have
        sites = [{self.site_of[at] for at in one} for one in there]
        self.common = sites[0] & sites[1]  # and functions

    def all(self) -> Iterator[One]:
        """The stacks of both sides, the new side's order first."""
        return chain(self.new, self.base)

    def stack(self, one: One) -> Stack:
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
        numbers: dict[int, int] = {}  # a frame is hashed once, not once a stack
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

    # ---- what of a stack is compared

    def offsets(self, one: One) -> tuple[int, ...]:
        """Where in their functions those were that have no lines of a source."""
        return tuple(
            frame.line
            for frame, at in zip(self.stack(one), one.path, strict=True)
            if not self.has_lines[at]
        )

    def ran(self, one: One) -> tuple[str, ...]:
        """The operators that ran, the innermost first; once where one only calls itself on."""
        found: list[str] = []
        for at in one.path[: one.users[0] if one.users else None]:
            name = self.operators[at]
            if name and (not found or found[-1] != name):
                found.append(name)
        return tuple(found)

    def operator(self, one: One) -> str:
        """The one that the user's code called."""
        return next(reversed(self.ran(one)), "")

    def known(self, one: One) -> Path:
        """The lines of the user's that both sides may have; the place is always among them."""
        return tuple(
            at
            for at in one.user
            if at in one.place or (self.site_of[at] in self.common and not self.inner[at])
        )

    def way(self, one: One) -> Way:
        """These, where one side alone has a line by its function: it may have been another one."""
        return tuple(
            (at, -1) if at in self.both else (-1, self.site_of[at]) for at in self.known(one)
        )

    def functions(self, one: One) -> Path:
        """The functions of these; a recursion counts once, however deep."""
        found: list[int] = []
        for at in self.known(one):
            site = self.site_of[at]
            if not found or found[-1] != site:
                found.append(site)
        return tuple(found)

    def callers(self, one: One) -> Path:
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


def _lines(of: Stacks, named: dict[Site, Site]) -> dict[str, dict[str, dict[int, int | None]]]:
    """The lines of each function of each file, with the bytes that are put down to each; of lines
    that call alone those that they lead to."""
    held: Counter[int] = Counter()  # by the identity of frames, which are hashed once
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
