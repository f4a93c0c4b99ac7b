"""Align a file's lines between two recordings, whether they stayed in place or moved.

Only recorded lines are known, and two runs rarely record the same ones. Lines with equal numbers
match, unless assuming insertions or removals gives more matches.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# For each function, the bytes attributed to each line. None if the bytes are unknown or the line
# only calls other code.
Lines = Mapping[str, Mapping[int, int | None]]
Line = tuple[str, int]  # (function, line)

MOST_PAIRS = 1 << 16  # maximum number of pairwise comparisons per file
MOST_PAIRS_OF_ALL = 1 << 18  # maximum number of pairwise comparisons for all files together
MOST_IN_ORDER = 16  # maximum number of a function's lines to match by bytes only
# Score for each matching pair of lines (counted twice if their bytes are equal), and cost of
# assuming that lines were inserted before the pair. If other lines stay, a single match isn't
# enough to assume a move, because it's more likely to be a different line with similar code.
_FITS, _INSERTED = 4, 5


class _Pair(NamedTuple):
    base: int
    new: int
    fits: int


class Aligned(NamedTuple):
    """The base's line number for each line of both sides.

    Lines that aren't listed have no match: a base line keeps its number, and a line of the new side
    counts as added.
    """

    base: dict[Line, int]
    new: dict[Line, int]
    compared: bool = False  # whether lines were compared pair by pair


def align_files(
    base: Mapping[str, Lines], new: Mapping[str, Lines], *, sized: bool = True
) -> dict[str, Aligned]:
    """Align the lines of each file of the new side."""
    found: dict[str, Aligned] = {}
    left = MOST_PAIRS_OF_ALL
    for file, theirs in new.items():
        ours = base.get(file, {})
        found[file] = align_lines(ours, theirs, sized=sized, most_pairs=min(left, MOST_PAIRS))
        if found[file].compared:
            left -= _pairs(ours, theirs)
    return found


def _pairs(base: Lines, new: Lines) -> int:
    return sum(len(lines) * len(new.get(function, ())) for function, lines in base.items())


def align_lines(
    base: Lines, new: Lines, *, sized: bool = True, most_pairs: int = MOST_PAIRS
) -> Aligned:
    """Align the lines of one file.

    `sized`: whether bytes are known. If they aren't, lines of a function that can't be told apart
    are treated as one.
    """
    ours = {(function, line) for function, lines in base.items() for line in lines}
    theirs = {(function, line) for function, lines in new.items() for line in lines}
    same = ours & theirs
    if same in (ours, theirs):
        return Aligned({}, {(function, line): line for function, line in same})
    both = [function for function in base if function in new]
    compared = _pairs(base, new) <= most_pairs
    if not compared:
        if same:
            return Aligned({}, {(function, line): line for function, line in same})
        chain: list[_Pair] = []
    else:
        chain = _best_chain(base, new, both)
    if not chain:
        return _without_anchors(base, new, both, sized)._replace(compared=compared)
    moved = {(pair.base, pair.new) for pair in chain}
    found = {
        (function, line): old
        for function in both
        for old, line in moved
        if old in base[function] and line in new[function]
    }
    return Aligned({}, found | _between(base, new, both, chain, found), compared)


def _best_chain(base: Lines, new: Lines, both: list[str]) -> list[_Pair]:
    """Return the best chain of pairs in line order: the one with the most matches and the fewest
    insertions.

    The chain starts as if the line before the first one were unchanged.
    """
    fits: dict[tuple[int, int], int] = defaultdict(int)
    for function in both:
        for old, n_bytes in base[function].items():
            for line, now_bytes in new[function].items():
                equal = n_bytes is not None and n_bytes == now_bytes
                fits[old, line] += 2 * _FITS if equal else _FITS
    pairs = [_Pair(*at, worth) for at, worth in sorted(fits.items())]
    places = {line: i for i, line in enumerate(sorted({pair.new for pair in pairs}), 1)}
    below = _HighestBelow(len(places))
    by_shift: dict[int, int] = {}  # the last pair of the best chain so far, by shift
    score = [0] * len(pairs)
    before = [-1] * len(pairs)
    # Pairs with the same base line. A chain can have only one of them.
    waiting: deque[int] = deque()
    for i, pair in enumerate(pairs):
        while waiting and pairs[waiting[0]].base < pair.base:
            at = waiting.popleft()
            below.put(places[pairs[at].new], score[at], at)
        shift = pair.new - pair.base
        best, last = (0 if shift == 0 else -_INSERTED), -1
        highest, at = below.highest(places[pair.new] - 1)
        if at >= 0 and highest - _INSERTED > best:
            best, last = highest - _INSERTED, at
        same = by_shift.get(shift, -1)
        if same >= 0 and score[same] >= best:
            best, last = score[same], same
        score[i], before[i] = best + pair.fits, last
        if same < 0 or score[i] >= score[same]:
            by_shift[shift] = i
        waiting.append(i)
    if not pairs:
        return []
    at = max(range(len(pairs)), key=lambda i: (score[i], -abs(pairs[i].new - pairs[i].base)))
    if score[at] <= 0:
        return []
    found = []
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


class _HighestBelow:
    """Prefix maxima of scores, in a Fenwick tree."""

    def __init__(self, n: int) -> None:
        self.scores = [(0, -1)] * (n + 1)

    def put(self, place: int, score: int, what: int) -> None:
        while place < len(self.scores):
            if score > self.scores[place][0]:
                self.scores[place] = score, what
            place += place & -place

    def highest(self, place: int) -> tuple[int, int]:
        found = 0, -1
        while place > 0:
            if self.scores[place][0] > found[0]:
                found = self.scores[place]
            place -= place & -place
        return found


def _between(
    base: Lines, new: Lines, both: list[str], chain: list[_Pair], found: dict[Line, int]
) -> dict[Line, int]:
    """Pair the remaining lines in each gap that has the same number of lines on both sides."""
    more: dict[Line, int] = {}
    taken = defaultdict(set)
    for (function, _), old in found.items():
        taken[function].add(old)
    last = _Pair(-1, -1, 0)
    for pair in chain:
        if pair.new - pair.base != last.new - last.base:
            for function in both:
                mine = [
                    line
                    for line in sorted(base[function])
                    if last.base < line < pair.base and line not in taken[function]
                ]
                its = [
                    line
                    for line in sorted(new[function])
                    if last.new < line < pair.new and (function, line) not in found
                ]
                if len(mine) == len(its):
                    more |= {(function, b): a for a, b in zip(mine, its, strict=True)}
        last = pair
    return more


def _without_anchors(base: Lines, new: Lines, both: list[str], sized: bool) -> Aligned:
    """If no lines stayed in place or moved as a block, align each function by itself, in order."""
    merged: dict[Line, int] = {}
    found: dict[Line, int] = {}
    for function in both:
        mine, its = sorted(base[function]), sorted(new[function])
        pairs = list(zip(range(len(mine)), range(len(its)), strict=False))
        if len(mine) != len(its):
            if not sized:
                merged |= dict.fromkeys(((function, line) for line in mine), mine[0])
                found |= dict.fromkeys(((function, line) for line in its), mine[0])
                continue
            before = [base[function][line] for line in mine]
            after = [new[function][line] for line in its]
            if all(n is None for n in (*before, *after)):
                continue
            if max(len(mine), len(its)) > MOST_IN_ORDER:
                continue
            pairs = least_change([n or 0 for n in before], [n or 0 for n in after])
        found |= {(function, its[b]): mine[a] for a, b in pairs}
    return Aligned(merged, found)


def least_change(base: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Pair the entries of both lists in order so that the bytes change least, and then so that the
    fewest entries stay unpaired. Unpaired entries exist on one side only.
    """
    # For each suffix of `base` with each of `new`: the cost (bytes, count), and whether to pair
    # their first entries or skip one of them.
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
