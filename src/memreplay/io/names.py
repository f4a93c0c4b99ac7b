"""Recognize snapshots by name, and sort names in natural order."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PICKLE = re.compile(r"\.(pkl|pickle)(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.IGNORECASE)
_JSON = re.compile(r"\.json(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.IGNORECASE)
_HTML = re.compile(r"\.html?\Z", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_MOST_DIGITS = 1000  # longer numbers aren't compared as numbers


def snapshot_names(names: Iterable[str]) -> list[str]:
    """Return the names of pickles or, if there are none, of JSON files."""
    names = list(names)
    for form in (_PICKLE, _JSON):
        found = [name for name in names if form.search(name)]
        if found:
            return found
    return []


def pickle_names(names: Iterable[str]) -> list[str]:
    """Return the names of pickles, compressed or not."""
    return [name for name in names if _PICKLE.search(name)]


def page_names(names: Iterable[str]) -> list[str]:
    """Return the names of HTML pages."""
    return [name for name in names if _HTML.search(name)]


_PLOT = re.compile(r"[-_.]?(?:trace|segment)_plot\Z", re.IGNORECASE)


def stem_of_page(name: str) -> str | None:
    """Return the name of an HTML page without its extension and PyTorch's suffix
    (`rank1.oom_trace_plot.html` → `rank1.oom`); None for other files.
    """
    return _PLOT.sub("", bare(name)) if _HTML.search(name) else None


def natural(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts `rank2` before `rank10`."""
    texts, numbers = _NUMBER.split(name), _NUMBER.findall(name)
    return list(zip(texts, [*map(_number, numbers), -1], strict=True))


def _number(digits: str) -> int:
    # Python refuses to parse a number with thousands of digits, which a URL can contain.
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def bare(name: str) -> str:
    """Strip extensions, because their digits (`.bz2`) aren't part of the name."""
    return _HTML.sub("", _JSON.sub("", _PICKLE.sub("", name)))
