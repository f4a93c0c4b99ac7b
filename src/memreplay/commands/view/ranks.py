"""Build one page for a run's ranks, which are read one by one from a folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, attempt_unreported, say
from memreplay.commands.shared.folders import rank_files
from memreplay.commands.shared.progress import several_progress, working
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.view.options import Given, given_options
from memreplay.render.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.categories.rules import Rule
    from memreplay.commands.shared.progress import Showing
    from memreplay.export.page.records import Page, PageData
    from memreplay.fleets.outliers import Member, Pair
    from memreplay.fleets.result import Outlier

    Read = tuple[tuple[PageData, bytes], Member | None]
    Made = tuple[Page, list[bytes]]

MOST_SAID = 8  # maximum number of outliers to print


def page_of_folder(
    folder: str, reading: Reading, total_memory: int | None
) -> tuple[Made | None, int]:
    """Return the page of the readable ranks (None if there are none), and the highest exit code of
    any file.
    """
    listed, worst = attempt(folder, partial(rank_files, folder))
    if listed is None:
        return None, worst
    files, alone = listed
    rules, given = reading.config.rules(), Given(given_options(reading), total_memory)

    def data_of(rank: int, showing: Showing) -> Read:
        from memreplay.commands.view.find import snapshot_data
        from memreplay.fleets.row import member_of

        with opened(files[rank], reading, showing) as snap:
            if snap.truncation is not None:
                say(f"rank {rank}: {CUT_OFF}")
            member = member_of(rank, snap, rules)
            data = snapshot_data(snap, f"rank {rank}", rules, report=False, given=given)
            return data, member

    found: dict[int, Read] = {}
    with several_progress(len(files)) as showing:
        for rank, file in files.items():
            data, exit_code = attempt(file, partial(data_of, rank, showing))
            worst = max(worst, exit_code)
            if data is not None:
                found[rank] = data
    for file in alone:
        say(f"{file} is left out because its name has no rank")
    if not found:
        return None, worst

    def work() -> Made:
        from memreplay.commands.view.find import ranks_page

        members = [member for _, member in found.values() if member is not None]
        odd = _outliers(members, reading, rules)
        return ranks_page(folder, {rank: data for rank, (data, _) in found.items()}, odd)

    made, exit_code = attempt(folder, work)
    return made, max(worst, exit_code)


def _outliers(
    members: Sequence[Member], reading: Reading, rules: tuple[Rule, ...] | None
) -> tuple[Outlier, ...]:
    """Return the ranks that `memreplay fleet` lists as outliers, and print them."""
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.diff.between_ranks import difference_of_files
    from memreplay.fleets.outliers import Explained, alike, outliers
    from memreplay.fleets.text import outlier_line

    def explained(pair: Pair) -> Explained:
        rows, _, error = attempt_unreported(
            lambda: difference_of_files(pair, reading, Selection(rules=rules))
        )
        return Explained(error=error) if rows is None else Explained(rows)

    with working("comparing the ranks"):
        odd = outliers(members, alike(members), lambda pairs: [*map(explained, pairs)])
    for one in odd[:MOST_SAID]:
        say(f"outlier: {outlier_line(one)}")
    if (left := len(odd) - MOST_SAID) > 0:
        say(f"{counted(left, 'more outlier')}; memreplay fleet lists all")
    return odd
