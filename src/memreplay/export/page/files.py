"""Short names of a page's files: without the folder they share, or as notebook cells."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.code.naming import cell_of
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.export.page.texts import Texts

# Folders of installed packages and of Python's standard library.
_INSTALLED = re.compile(r".*[/\\](?:(?:site|dist)-packages|python3[\d.]*)[/\\]", re.DOTALL)
_AFTER_SEPARATOR = re.compile(r"(?<=[/\\])")
_ROOT = 2  # the root and the first folder: files that differ in these share no folder


class FileNames(NamedTuple):
    """The names of a page's files."""

    folder: str
    """The folder that is left out of names, with a separator at its end; "" for none."""
    names: tuple[tuple[int, int], ...]
    """Each file and its name, as indices in the page's texts."""


def file_names(files: Iterable[str], own: Iterable[str], texts: Texts) -> FileNames:
    """Name all files of a page. `own`: the user's files, whose common folder is left out."""
    folder = common_folder(own)
    names = ((texts.place(one), texts.place(short_name(one, folder))) for one in files if one)
    return FileNames(clean(folder), tuple(names))


def common_folder(files: Iterable[str]) -> str:
    """Return the deepest folder that contains most of the files; "" if there's none."""
    paths = [_AFTER_SEPARATOR.split(one)[:-1] for one in files if not cell_of(one)]
    roots = Counter(tuple(one[:_ROOT]) for one in paths if len(one) >= _ROOT)
    if not roots:
        return ""
    root = list(roots.most_common(1)[0][0])
    levels = zip(*(one for one in paths if one[:_ROOT] == root), strict=False)
    return "".join(level[0] for level in takewhile(lambda level: len({*level}) == 1, levels))


def short_name(file: str, folder: str) -> str:
    """Return a file's name on the page: a notebook cell, or the path within `folder` or within the
    installed packages.
    """
    if cell := cell_of(file):
        return cell
    # First, because a virtual environment may be in `folder`.
    if found := _INSTALLED.match(file):
        return file[found.end() :]
    return file.removeprefix(folder)
