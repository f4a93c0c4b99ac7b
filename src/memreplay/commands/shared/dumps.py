"""Choose which dump of each rank to read if a folder has several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from memreplay.declared import Opt
from memreplay.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.analysis.comparing.dumps import Chosen
    from memreplay.io.listing import Listed


Dump = Annotated[
    str | None,
    Opt(
        "If each rank has several dumps, read the one with this in its path (such as"
        " iteration_10, or a pattern). Default: the newest. '--dump each' reads all of them.",
        "NAME",
        brief="Read this dump of each rank, not the newest.",
    ),
]


def chosen_dump(
    files: Sequence[Listed],
    wanted: str | None,
    ranks: Callable[[Sequence[str]], Sequence[int | None]] | None = None,
) -> Chosen:
    """Choose one file per rank with `one_dump`, using modification times if names don't show the
    order.

    Shell patterns can also match HTML pages next to snapshots. Pages written by memreplay, and
    pages of snapshots that are themselves among the files, are skipped with a note.
    """
    from memreplay.analysis.comparing.dumps import one_dump, without_redundant_pages
    from memreplay.analysis.comparing.rank_names import explicit_ranks
    from memreplay.commands.shared.errors import name_of, say
    from memreplay.io.choosing import is_own_page

    ranks = ranks or explicit_ranks
    kept = [one for one in files if is_url(one.path) or not is_own_page(one.path)] or list(files)
    kept = without_redundant_pages(kept, ranks)
    left = {id(one) for one in kept}
    if out := [name_of(one.path) for one in files if id(one) not in left]:
        more = f" and {len(out) - 1:,} more" if len(out) > 1 else ""
        say(f"{out[0]}{more} left out: pages next to their snapshots")
    return one_dump(kept, wanted, _changed_at, ranks)


def _changed_at(one: Listed) -> float | None:
    if is_url(one.path):
        return None
    try:
        return os.stat(one.path).st_mtime_ns
    except OSError:
        return None
