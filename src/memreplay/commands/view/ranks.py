"""Build one page for a run's ranks, which are read one by one from a folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, say
from memreplay.commands.shared.folders import rank_files
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.view.options import Given, given_options

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.export.page.records import Page, PageData

    Data = tuple[PageData, bytes]
    Made = tuple[Page, list[bytes]]


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

    def data_of(rank: int, showing: Showing) -> Data:
        from memreplay.commands.view.find import snapshot_data

        with opened(files[rank], reading, showing) as snap:
            if snap.truncation is not None:
                say(f"rank {rank}: {CUT_OFF}")
            return snapshot_data(snap, f"rank {rank}", rules, report=False, given=given)

    found: dict[int, Data] = {}
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

        return ranks_page(folder, found)

    made, exit_code = attempt(folder, work)
    return made, max(worst, exit_code)
