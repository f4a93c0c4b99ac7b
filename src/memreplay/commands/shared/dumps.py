"""Which dump of each rank to read, where a folder has several: the option, and the choice."""

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
        "Read the dump that has this in its files' paths (iteration_10, or a pattern), where each"
        " rank has several; by default the newest. '--dump each' reads all of them.",
        "NAME",
        brief="Read this dump of each rank, not the newest.",
    ),
]


def chosen_dump(
    files: Sequence[Listed],
    wanted: str | None,
    ranks: Callable[[Sequence[str]], Sequence[int | None]] | None = None,
) -> Chosen:
    """One file of each rank, by when files were changed where names don't tell; see `one_dump`.

    A shell's pattern names the HTML pages that lie beside snapshots, too. Those that memreplay
    wrote, and those of snapshots that are there themselves, are left out; a note says so.
    """
    from memreplay.analysis.comparing.dumps import beside_pages, one_dump
    from memreplay.analysis.comparing.rank_names import ranks_said
    from memreplay.commands.shared.errors import name_of, say
    from memreplay.io.choosing import is_own_page

    ranks = ranks or ranks_said
    kept = [one for one in files if is_url(one.path) or not is_own_page(one.path)] or list(files)
    kept = beside_pages(kept, ranks)
    left = {id(one) for one in kept}
    if out := [name_of(one.path) for one in files if id(one) not in left]:
        more = f" and {len(out) - 1:,} more" if len(out) > 1 else ""
        say(f"{out[0]}{more} left out: pages beside the snapshots that they are of")
    return one_dump(kept, wanted, _changed_at, ranks)


def _changed_at(one: Listed) -> float | None:
    if is_url(one.path):
        return None
    try:
        return os.stat(one.path).st_mtime_ns
    except OSError:
        return None
