"""Choose a page's default name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

# Suffixes and words in file names that describe the format rather than the contents.
_FORMS = re.compile(
    r"(\.(pkl|pickle|json|bin))?(\.(gz|zst|zstd|xz|bz2|zip))?\Z", re.ASCII | re.IGNORECASE
)
_LONGEST = 100  # characters; file systems allow 255 bytes
STDIN = "snapshot"
_GENERATOR = b'<meta name="generator" content="memreplay '
_HEAD = 4096


def page_name(files: Sequence[str]) -> str:
    """Return the default name of a page for one file, a folder or two files."""
    return "-".join(_bare(file) for file in files) + ".html"


def short_name(file: str) -> str:
    """Return the last part of a path or URL."""
    if file == "-":
        return "standard input"
    path = re.sub(r"[?#].*", "", file) if "://" in file else os.path.abspath(file)
    return os.path.basename(path.rstrip("/" + os.sep)) or file


def is_page(path: str) -> bool:
    """Return whether memreplay wrote this file as a page."""
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
    # A leading dot would hide the file, and a dash would look like an option.
    return bare.lstrip(".-")[:_LONGEST] or STDIN
