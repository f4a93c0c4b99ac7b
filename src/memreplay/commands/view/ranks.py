"""The ranks of a run on one page: a folder's snapshots, read one after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, say
from memreplay.commands.shared.folders import rank_files
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.view.options import asked_words

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.export.page.records import Page, PageData

    Data = tuple[PageData, bytes]
    Made = tuple[Page, list[bytes]]


def page_of_folder(folder: str, reading: Reading) -> tuple[Made | None, int]:
    """The page of those that can be read, None for none, and the highest exit code of all files."""
    listed, worst = attempt(folder, partial(rank_files, folder))
    if listed is None:
        return None, worst
    files, alone = listed
    rules, asked = reading.config.rules(), asked_words(reading)

    def data_of(rank: int, showing: Showing) -> Data:
        from memreplay.commands.view.find import snapshot_data

        with opened(files[rank], reading, showing) as snap:
            if snap.truncation is not None:
                say(f"rank {rank}: {CUT_OFF}")
            return snapshot_data(snap, f"rank {rank}", rules, report=False, asked=asked)

    found: dict[int, Data] = {}
    with several_progress(len(files)) as showing:
        for rank, file in files.items():
            data, exit_code = attempt(file, partial(data_of, rank, showing))
            worst = max(worst, exit_code)
            if data is not None:
                found[rank] = data
    for file in alone:
        say(f"{file} is left out: it has no rank in its name, and others have")
    if not found:
        return None, worst

    def work() -> Made:
        from memreplay.commands.view.find import ranks_page

        return ranks_page(folder, found)

    made, exit_code = attempt(folder, work)
    return made, max(worst, exit_code)
