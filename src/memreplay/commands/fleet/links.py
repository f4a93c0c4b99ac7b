"""Find the ranks' own pages, to which a fleet's page links."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote

from memreplay.commands.view.names import is_page, page_name


def links_of(files: Iterable[str], output: str) -> dict[str, str]:
    """Return the URL of each file's page, relative to `output`, for files that have one.

    The page has the name that `memreplay view` chooses. It's beside its file, or beside `output` if
    no other file's page would have this name. Pages older than their file aren't returned.
    """
    if output == "-":
        return {}
    output = os.path.abspath(output)
    here = os.path.dirname(output)
    names = {file: page_name([file]) for file in files}
    uses = Counter(names.values())
    found = {}
    for file, name in names.items():
        places = [os.path.dirname(os.path.abspath(file)), *([here] if uses[name] == 1 else [])]
        for path in (os.path.join(place, name) for place in places):
            if path != output and _is_new(path, file) and is_page(path):
                found[file] = _url(path, here)
                break
    return found


def _is_new(page: str, file: str) -> bool:
    try:
        return os.path.getmtime(page) >= os.path.getmtime(file)
    except OSError:  # there's no page, or the file is in an object store
        return False


def _url(path: str, folder: str) -> str:
    try:
        path = os.path.relpath(path, folder)
    except ValueError:  # another drive on Windows
        return "file:///" + quote(os.fsencode(path.replace(os.sep, "/")), safe="/:")
    # A colon is quoted, so no name is taken for a scheme.
    return quote(os.fsencode(path.replace(os.sep, "/")))
