"""Tells which files of a folder of this machine are snapshots: by their names, pages by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import BinaryIO

from memreplay.io.names import page_names, snapshot_names
from memreplay.io.viewer_page import holds_snapshot, is_own

NO_SNAPSHOT = "no snapshot in this folder: no name ends in .pkl, .pickle or .json"
_HEAD = 64 << 10  # bytes of a page: PyTorch's begin with their snapshot


def no_snapshot_words(folder: str) -> str:
    """Why a folder of this machine has no snapshot."""
    try:
        shown = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        names = snapshot_names(shown)
    except OSError:
        names = []
    odd = [name for name in names if not os.path.isdir(os.path.join(folder, name))]
    if odd:
        return (
            f"no snapshot in this folder: {odd[0]} is no regular file, but a pipe, a device or a"
            " link that leads nowhere"
        )
    return NO_SNAPSHOT


def snapshots_among(names: Iterable[str], folder: str) -> list[str]:
    """Those of the files that are snapshots: pickles; where there is none, JSON files; where there
    is neither, HTML pages with a snapshot in them, which memreplay's own are not.

    Tools write a page beside the pickle that it is of, so pages count only by themselves; and of
    the two pages of one snapshot the one with the trace.
    """
    names = list(names)
    found = snapshot_names(names)
    if found:
        return found
    pages = page_names(names)
    return one_of_two(
        [name for name in pages if _head_says(os.path.join(folder, name), holds_snapshot)]
    )


def one_of_two(pages: Iterable[str]) -> list[str]:
    """Of the two pages that PyTorch makes of one snapshot the one with the trace."""
    pages = list(pages)
    there = set(pages)
    return [
        name
        for name in pages
        if "segment_plot" not in name or name.replace("segment_plot", "trace_plot") not in there
    ]


def begins_with_snapshot(page: BinaryIO) -> bool:
    """Whether an HTML page that was opened holds a snapshot."""
    return holds_snapshot(page.read(_HEAD))


def is_own_page(path: str) -> bool:
    """Whether it is a page that memreplay wrote, which holds no snapshot."""
    return bool(page_names([path])) and _head_says(path, is_own)


def _head_says(path: str, asked: Callable[[bytes], bool]) -> bool:
    if not os.path.isfile(path):  # a pipe would be waited for
        return False
    try:
        with open(path, "rb") as file:
            return asked(file.read(_HEAD))
    except OSError:
        return False
