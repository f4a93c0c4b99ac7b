"""A run's ranks with their peaks and curves, read one by one."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from memreplay.commands.shared.errors import attempt, say
from memreplay.commands.shared.folders import rank_files
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.explore.curve import FINE, Chars, picture
from memreplay.explore.rows.row import Line, Shown
from memreplay.render.units import count, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.snapshot.model import MeasureName

CELLS = 40  # width of a curve, in cells
COLUMNS = 2 * CELLS


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


class RankRows:
    """The ranks' rows, by peak or by number."""

    titles: tuple[str, ...] = ("rank", "peak", "reserved")
    note = "no rank could be read"

    def __init__(self, ranks: Sequence[Rank], chars: Chars, *, by_peak: bool) -> None:
        self.ranks = sorted(ranks, key=lambda one: (-one.peak if by_peak else 0, one.rank))
        self.chars: Chars = chars
        self.top = max((one.peak for one in ranks), default=1)

    def __len__(self) -> int:
        return len(self.ranks)

    def line(self, at: int) -> Line:
        one = self.ranks[at]
        step = 2 // FINE[self.chars]
        lows = [min(one.lows[i : i + step]) for i in range(0, COLUMNS, step)]
        highs = [max(one.highs[i : i + step]) for i in range(0, COLUMNS, step)]
        (drawn,) = picture(lows, highs, max(self.top, 1), 1, self.chars)
        share = one.peak / self.top if self.top else 0.0
        cells = count(one.rank), size(one.peak), size(one.reserved)
        # Scaled so that similar ranks all get a cool colour. Only values above half of the maximum
        # get distinct colours.
        return Line(cells, f"{drawn.text}  {clean(os.path.basename(one.file))}", share / 4)

    def key(self, at: int) -> Hashable:
        return self.ranks[at].rank

    def texts(self, at: int) -> Sequence[str]:
        return (self.ranks[at].file, str(self.ranks[at].rank))

    def shown(self, at: int) -> Shown:
        one = self.ranks[at]
        pairs = (
            ("peak", f"{size(one.peak)} after event {count(one.event)}"),
            ("device", str(one.device)),
        )
        return Shown(f"rank {one.rank}", pairs)


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
    from memreplay.errors import UsageError
    from memreplay.explore.explored import Explored

    with opened(file, reading, showing) as snap:
        if not snap.devices:
            raise UsageError("the snapshot has no device with memory")
        device = max(snap.devices, key=lambda one: snap.replay(one).peak.bytes)
        explored = Explored(snap)
        look = explored.first_look(device, measure)
        curve = explored.curve(look, COLUMNS)
        peak = explored.usage(look).peak
        reserved = snap.replay(device).measure("reserved").peak.bytes
        return Rank(
            rank, file, device, peak.bytes, peak.event_index, reserved, curve.lows, curve.highs
        )
