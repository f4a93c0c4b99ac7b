"""Which dump of each rank to read, where a folder has several: the option, and the choice."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memreplay.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.analysis.comparing.dumps import Chosen
    from memreplay.io.listing import Listed

F = TypeVar("F", bound="Callable[..., Any]")


def dump_option(each: str) -> Callable[[F], F]:
    """`--dump`; `each` is what `--dump each` does."""
    return click.option(
        "--dump",
        metavar="NAME",
        help="Read the dump that has this in its files' paths (iteration_10, or a pattern), where"
        f" each rank has several; by default the newest. '--dump each' {each}.",
    )


def chosen_dump(
    files: Sequence[Listed],
    wanted: str | None,
    ranks: Callable[[Sequence[str]], Sequence[int | None]] | None = None,
) -> Chosen:
    """One file of each rank, by when files were changed where names don't tell; see `one_dump`."""
    from memreplay.analysis.comparing.dumps import one_dump
    from memreplay.analysis.comparing.rank_names import ranks_said

    return one_dump(files, wanted, _changed_at, ranks or ranks_said)


def _changed_at(one: Listed) -> float | None:
    if is_url(one.path):
        return None
    try:
        return os.stat(one.path).st_mtime_ns
    except OSError:
        return None
