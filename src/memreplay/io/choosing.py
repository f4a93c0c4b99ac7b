"""Find the snapshots in a folder: by file name or, for HTML pages, by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import BinaryIO

from memreplay.io.names import page_names, snapshot_names
from memreplay.io.viewer_page import holds_snapshot, is_own

NO_SNAPSHOT = "no snapshot in this folder: no name ends in .pkl, .pickle or .json"
_HEAD = 64 << 10  # number of bytes of a page to read; PyTorch's pages start with the snapshot


def no_snapshot_text(folder: str) -> str:
    """Return the error message for a folder without snapshots."""
    try:
        shown = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        names = snapshot_names(shown)
    except OSError:
        names = []
    odd = [name for name in names if not os.path.isdir(os.path.join(folder, name))]
    if odd:
        return (
            f"no snapshot in this folder: {odd[0]} is a pipe, a device or a broken link, not a"
            " regular file"
        )
    return NO_SNAPSHOT


def snapshots_among(names: Iterable[str], folder: str) -> list[str]:
    """Return the files that are snapshots: pickles, else JSON files, else HTML pages with a
    snapshot.

    Pages only count if there are no other files, because tools write a page next to the pickle that
    the page shows. PyTorch can make two pages from one snapshot. In that case, the page with the
    trace is returned. memreplay's own pages are left out.
    """
    names = list(names)
    found = snapshot_names(names)
    if found:
        return found
    pages = page_names(names)
    return prefer_trace_plots(
        [name for name in pages if _head_matches(os.path.join(folder, name), holds_snapshot)]
    )


def prefer_trace_plots(pages: Iterable[str]) -> list[str]:
    """Drop a segment plot if `pages` also has the same snapshot's trace plot."""
    pages = list(pages)
    there = set(pages)
    return [
        name
        for name in pages
        if "segment_plot" not in name or name.replace("segment_plot", "trace_plot") not in there
    ]


def begins_with_snapshot(page: BinaryIO) -> bool:
    """Return whether an open HTML page contains a snapshot."""
    return holds_snapshot(page.read(_HEAD))


def is_own_page(path: str) -> bool:
    """Return whether memreplay wrote this page. memreplay's pages don't contain a snapshot."""
    return bool(page_names([path])) and _head_matches(path, is_own)


def _head_matches(path: str, check: Callable[[bytes], bool]) -> bool:
    if not os.path.isfile(path):  # opening a pipe would block
        return False
    try:
        with open(path, "rb") as file:
            return check(file.read(_HEAD))
    except OSError:
        return False
