"""A run's ranks with their peaks and curves, read one by one."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.code.naming import Name
from memreplay.commands.shared.errors import attempt, say
from memreplay.commands.shared.folders import rank_files
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.explore.curve import FINE, Chars, picture
from memreplay.explore.rows.row import Line, Shown, Tone
from memreplay.fleets.outliers import Member, alike, holder_changes, outliers
from memreplay.fleets.text import compared_with, place_of_holder
from memreplay.render.fit import cell_width
from memreplay.render.places import in_place, place_text
from memreplay.render.units import count, counted, signed_size, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.fleets.result import Outlier
    from memreplay.snapshot.model import MeasureName

LEAST_CELLS = 10  # width of a curve, in cells
COLUMNS = 960  # number of values in a curve, more than any screen shows


class Rank(NamedTuple):
    """A rank's row, which shows its device with the highest peak."""

    rank: int
    file: str
    device: int
    peak: int
    event: int
    reserved: int
    lows: list[int]
    highs: list[int]
    holders: dict[str, int]
    """Bytes at the peak by line of code, for comparing ranks."""
    failures: int = 0
    """Number of failed requests."""


def odd_ones(ranks: Sequence[Rank]) -> dict[int, Outlier]:
    """Return the outliers of `memreplay fleet` by rank, largest difference between the peaks
    first.
    """
    members = [
        Member(one.rank, one.file, one.device, one.peak, one.holders)
        for one in sorted(ranks, key=lambda one: one.rank)
    ]
    return {one.rank: one for one in outliers(members, alike(members))}


class RankRows:
    """The ranks' rows, by peak or by number."""

    note = "no rank could be read"

    def __init__(self, ranks: Sequence[Rank], chars: Chars, *, by_peak: bool) -> None:
        self.ranks = sorted(ranks, key=lambda one: (-one.peak if by_peak else 0, one.rank))
        self.chars: Chars = chars
        self.top = max((one.peak for one in ranks), default=1)
        self.odd = odd_ones(ranks)
        self.titles: tuple[str, ...] = (
            "rank",
            "peak",
            "reserved",
            *["outlier"][: len(self.odd)],
        )
        self.cells = 40  # width of a curve

    def fit(self, width: int) -> None:
        """Let the curves take the room that the numbers and names in a row leave."""
        names = [
            cell_width(clean(os.path.basename(one.file))) + cell_width(_failed(one))
            for one in self.ranks
        ]
        columns = zip(self.titles, *map(self._cells, self.ranks), strict=True)
        numbers = sum(2 + max(7, *map(len, column)) for column in columns)
        self.cells = max(width - 1 - numbers - max(names, default=0) - 2, LEAST_CELLS)

    def _cells(self, one: Rank) -> tuple[str, ...]:
        odd = self.odd.get(one.rank)
        more = [signed_size(odd.change_bytes) if odd else ""] if self.odd else []
        return (count(one.rank), size(one.peak), size(one.reserved), *more)

    def __len__(self) -> int:
        return len(self.ranks)

    def line(self, at: int) -> Line:
        one = self.ranks[at]
        columns, n = self.cells * FINE[self.chars], len(one.highs)
        cuts = [(i * n // columns, max((i + 1) * n // columns, 1)) for i in range(columns)]
        lows = [min(one.lows[min(a, b - 1) : b]) for a, b in cuts]
        highs = [max(one.highs[min(a, b - 1) : b]) for a, b in cuts]
        (drawn,) = picture(lows, highs, max(self.top, 1), 1, self.chars)
        odd = self.odd.get(one.rank)
        tones: list[Tone] = ["rose" if odd else "sure" if on else "high" for on in drawn.always]
        runs = groupby(range(self.cells), tones.__getitem__)
        lead = [("".join(drawn.text[i] for i in run), tone) for tone, run in runs]
        return Line(
            self._cells(one),
            clean(os.path.basename(one.file)),
            lead=(*lead, ("  ", "plain")),
            tail=_failed(one),
            change=odd.change_bytes if odd else 0,
        )

    def is_notable(self, at: int) -> bool:
        """Return whether a rank is an outlier or ran out of memory."""
        return self.ranks[at].rank in self.odd or self.ranks[at].failures > 0

    def key(self, at: int) -> Hashable:
        return self.ranks[at].rank

    def texts(self, at: int) -> Sequence[str]:
        return (self.ranks[at].file, str(self.ranks[at].rank))

    def shown(self, at: int) -> Shown:
        one = self.ranks[at]
        peak = f"{size(one.peak)} after event {count(one.event)} on device {one.device}"
        pairs = [("peak", ", ".join(filter(None, (peak, _failed(one)))))]
        if odd := self.odd.get(one.rank):
            typical = next(other for other in self.ranks if other.rank == odd.typical_rank)
            words = compared_with(odd)
            found = holder_changes(typical.holders, one.holders)
            changes = [(change.new_bytes - change.base_bytes, change.label) for change in found]
            # the largest change in the same direction
            changes.sort(key=lambda change: change[0] * odd.change_bytes <= 0)
            for n_bytes, label in changes[:1]:
                place = place_of_holder(label)
                name = Name(place.function, place.file, place.line)
                words += f"; {signed_size(n_bytes)} {in_place(place_text(name, label))}"
            pairs.append(("outlier", words))
        return Shown(f"rank {one.rank}", tuple(pairs))


def _failed(one: Rank) -> str:
    """Return text such as `2 requests failed`."""
    return f"{counted(one.failures, 'request')} failed" if one.failures else ""


def ranks_of_folder(folder: str, reading: Reading, measure: MeasureName) -> tuple[list[Rank], int]:
    """Return the readable ranks, and the highest exit code for any file."""
    listed, worst = attempt(folder, partial(_files, folder))
    if listed is None:
        return [], worst
    found: list[Rank] = []
    with several_progress(len(listed)) as showing:
        for rank, file in listed.items():
            one, code = attempt(file, partial(_read, rank, file, reading, measure, showing))
            worst = max(worst, code)
            if one is not None:
                found.append(one)
    return found, worst


def _files(folder: str) -> dict[int, str]:
    """Return the file of each rank."""
    found, alone = rank_files(folder)
    for file in alone:
        say(f"{file} is left out because its name has no rank")
    return found


def _read(rank: int, file: str, reading: Reading, measure: MeasureName, showing: Showing) -> Rank:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.errors import UsageError
    from memreplay.explore.explored import Explored
    from memreplay.fleets.row import holders_at

    with opened(file, reading, showing) as snap:
        if not snap.devices:
            raise UsageError("the snapshot has no device with memory")
        device = max(snap.devices, key=lambda one: snap.replay(one).peak.bytes)
        explored = Explored(snap)
        look = explored.first_look(device, measure)
        curve = explored.curve(look, COLUMNS)
        peak = explored.usage(look).peak
        reserved = snap.replay(device).measure("reserved").peak.bytes
        lines = Grouper(snap, "line")
        held = holders_at(lines, explored.usage(look), peak.event_index)
        return Rank(
            rank=rank,
            file=file,
            device=device,
            peak=peak.bytes,
            event=peak.event_index,
            reserved=reserved,
            lows=curve.lows,
            highs=curve.highs,
            failures=len(explored.marks(look).ooms),
            holders={} if measure == "reserved" else {one.label: one.bytes for one in held},
        )
