"""Tells by its first bytes what a file is that is no snapshot: what people hand in by mistake."""

from __future__ import annotations

import re
from typing import NamedTuple

RECORD = "record one with torch.cuda.memory._dump_snapshot(path)"
SHOWN = 40  # characters of a text's first line


class Foreign(NamedTuple):
    """What a file is, and what to do instead."""

    what: str
    hint: str


_DUMP = "name the file that the program dumped, not the program"
# What is no text. Pictures, PDFs, archives and the like are refused when the file is opened.
_MAGIC = (
    (re.compile(rb"\x89HDF\r\n"), "an HDF5 file"),
    (re.compile(rb"GGUF"), "a model in GGUF"),
    (re.compile(rb".{5}\0{3}\{", re.DOTALL), "weights in safetensors"),
    (re.compile(rb"SQLite format 3\0"), "an SQLite database"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "text in UTF-16"),
)
# Pickles of protocol 0 are text, too. What begins like one stays one, above all where it asks to
# call something: a name has no spaces.
_PICKLE = re.compile(
    r"\([dlt](?:(?:p\d*)?(?:\s|\Z)|[(VSIFLcgNs.a\])])"
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
        "what memreplay wrote as JSON",
        "name the snapshot that it was made of",
    ),
    (re.compile(r"\"nbformat\"|^\{\s*\"cells\"\s*:\s*\["), "a Jupyter notebook", _DUMP),
)


def is_profile(head: bytes) -> bool:
    """Whether the file with this beginning is a trace of torch.profiler, in Chrome's format."""
    text = _text(head) or ""
    return text.lstrip()[:1] in ("{", "[") and _CHROME.search(text) is not None


def told(head: bytes) -> Foreign | None:
    """What the file with this beginning is, where that is plain; None of what may be a snapshot."""
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
    """The beginning as text; None where it is none, or too short to tell."""
    for cut in range(4):  # a character may be cut off at the end
        try:
            text = head[: len(head) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        plain = all(c.isprintable() or c in "\t\n\r\f\x1b" for c in text)
        return text if plain and len(text.strip()) >= 4 else None
    return None
