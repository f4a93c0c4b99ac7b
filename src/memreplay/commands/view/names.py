"""What a page is called that nobody named, by what it is of."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

# What says the form of a snapshot, and nothing of what is in it.
_FORMS = re.compile(
    r"(\.(pkl|pickle|json|bin))?(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.ASCII | re.IGNORECASE
)
_LONGEST = 100  # letters of a file's name; a system takes 255 bytes
STDIN = "snapshot"
_GENERATOR = b'<meta name="generator" content="memreplay '
_HEAD = 4096


def page_name(files: Sequence[str]) -> str:
    """The name of the page of one file, of a folder, or of two files, for the current folder."""
    return "-".join(_bare(file) for file in files) + ".html"


def short_name(file: str) -> str:
    """The last part of a path or a URL, which is what people call a file."""
    if file == "-":
        return "standard input"
    path = re.sub(r"[?#].*", "", file) if "://" in file else os.path.abspath(file)
    return os.path.basename(path.rstrip("/" + os.sep)) or file


def is_page(path: str) -> bool:
    """Whether this is a file that memreplay wrote as a page."""
    try:
        with open(path, "rb") as file:
            return _GENERATOR in file.read(_HEAD)
    except OSError:
        return False


def _bare(file: str) -> str:
    if file == "-":
        return STDIN
    name = short_name(file).replace("/", "-")
    bare = _FORMS.sub("", name)
    # Without its first dot it would be hidden, and with a dash an option.
    return bare.lstrip(".-")[:_LONGEST] or STDIN
