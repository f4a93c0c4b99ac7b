"""Tells snapshots from other files by their names, and puts names in natural order."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PICKLE = re.compile(r"\.(pkl|pickle)(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.IGNORECASE)
_JSON = re.compile(r"\.json(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.IGNORECASE)
_HTML = re.compile(r"\.html?\Z", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_MOST_DIGITS = 1000  # longer numbers are in no order


def snapshot_names(names: Iterable[str]) -> list[str]:
    """Those that are snapshots by their name: pickles; where there is none, JSON files."""
    names = list(names)
    for form in (_PICKLE, _JSON):
        found = [name for name in names if form.search(name)]
        if found:
            return found
    return []


def pickle_names(names: Iterable[str]) -> list[str]:
    """Those that are pickles by their name, packed or not."""
    return [name for name in names if _PICKLE.search(name)]


def page_names(names: Iterable[str]) -> list[str]:
    """Those that are HTML pages by their name."""
    return [name for name in names if _HTML.search(name)]


_PLOT = re.compile(r"[-_.]?(?:trace|segment)_plot\Z", re.IGNORECASE)


def stem_of_page(name: str) -> str | None:
    """What an HTML page is called without its form and what PyTorch calls its plots
    (`rank1.oom_trace_plot.html`); None for what is no page."""
    return _PLOT.sub("", bare(name)) if _HTML.search(name) else None


def natural(name: str) -> list[tuple[str, int]]:
    """A key that puts `rank2` before `rank10`."""
    texts, numbers = _NUMBER.split(name), _NUMBER.findall(name)
    return list(zip(texts, [*map(_number, numbers), -1], strict=True))


def _number(digits: str) -> int:
    # Python refuses thousands of digits, which a URL may have.
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def bare(name: str) -> str:
    """A name without what says its form, in which numbers mean something else (`.bz2`)."""
    return _HTML.sub("", _JSON.sub("", _PICKLE.sub("", name)))
