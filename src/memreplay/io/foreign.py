"""Recognize other types of files, which users pass by mistake, by their first bytes."""

from __future__ import annotations

import re
from typing import NamedTuple

RECORD = "record one with torch.cuda.memory._dump_snapshot(path)"
SHOWN = 40  # maximum number of characters to show from the first line


class Foreign(NamedTuple):
    """A file's type, and a hint."""

    what: str
    hint: str


_DUMP = "pass the file that the program dumped, not the program"
# Binary formats. Images, PDFs, archives and so on were already ruled out when the file was opened.
_MAGIC = (
    (re.compile(rb"\x89HDF\r\n"), "an HDF5 file"),
    (re.compile(rb"GGUF"), "a model in GGUF"),
    (re.compile(rb".{5}\0{3}\{", re.DOTALL), "weights in safetensors"),
    (re.compile(rb"SQLite format 3\0"), "an SQLite database"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "text in UTF-16"),
)
# Pickles of protocol 0 are text, too. A file that starts like such a pickle is read as a pickle,
# especially if it imports a name (names have no spaces).
_PICKLE = re.compile(
    r"\(+[dlt](?:(?:p\d*)?(?:\s|\Z)|[(VSIFLcgNs.a\])])"
    r"|\(*(?:[ci][\w.]+\n[\w.]+\n|[IL]-?\d+L?\n|F[-\d.e]+\n|[SV][^\n]*\n[p.]|P\S*\n[.p]|[\])}])"
)
_PYTHON = re.compile(
    r"\s*(?:#[^\n]*\n\s*)*(?:import \w|from [\w.]+ import|def \w+\(|class \w+[(:]|@\w+|async def"
    r"|if __name__|[\"']{3})"
)
_ANNEX = re.compile(r"(?:[./\w]*\.git)?/annex/objects/")
_TEXTS = (
    (
        re.compile(r"version https://git-lfs\."),
        "a git-lfs pointer: the file itself is not here",
        "get it with git lfs pull",
    ),
    (_ANNEX, "a git-annex pointer: the file itself is not here", "get it with git annex get"),
    (re.compile(r"#!.*python"), "Python source", _DUMP),
    (re.compile(r"#!"), "a script", _DUMP),
    (re.compile(r"\s*<\?xml|\s*<svg"), "XML", RECORD),
    (re.compile(r"Traceback \(most recent call last\)"), "a Python traceback", RECORD),
    (_PYTHON, "Python source", _DUMP),
)
_CHROME = re.compile(
    r"\"(?:traceEvents|deviceProperties|displayTimeUnit)\"|^\[?\s*\{[^{}]*\"ph\"\s*:"
)
_JSON = (
    (
        re.compile(r"\"schema\"\s*:\s*\"memreplay\.\w+/"),
        "JSON output of memreplay",
        "pass the snapshot it was made from",
    ),
    (re.compile(r"\"nbformat\"|^\{\s*\"cells\"\s*:\s*\["), "a Jupyter notebook", _DUMP),
)


def is_profile(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a torch.profiler trace (Chrome's format)."""
    text = _text(head) or ""
    return text.lstrip()[:1] in ("{", "[") and _CHROME.search(text) is not None


def other_file_type(head: bytes) -> Foreign | None:
    """Return the type of a file that starts with `head`; None if it may be a snapshot."""
    for magic, what in _MAGIC:
        if magic.match(head):
            return Foreign(what, RECORD)
    text = _text(head)
    if text is None:
        return None
    if text.lstrip()[:1] in ("{", "["):
        for pattern, what, hint in _JSON:
            if pattern.search(text):
                return Foreign(what, hint)
        return None
    if _PICKLE.match(text):
        return None
    for pattern, what, hint in _TEXTS:
        if pattern.match(text):
            return Foreign(what, hint)
    line = text.strip().partition("\n")[0].strip()
    shown = line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
    return Foreign(f"text ({shown!r})", RECORD)


def _text(head: bytes) -> str | None:
    """Decode `head`. None if it isn't text or is too short."""
    for cut in range(4):  # the last character may be incomplete
        try:
            text = head[: len(head) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        plain = all(c.isprintable() or c in "\t\n\r\f\x1b" for c in text)
        return text if plain and len(text.strip()) >= 4 else None
    return None
