"""Find the code blocks in documents, fenced or indented."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^( *)(```+|~~~+)\s*(\w*)")
_LIST = re.compile(r"^\s*(?:[-*+]|\d+\.)\s")
INDENT = "    "


class Block(NamedTuple):
    """A block of code in a document."""

    document: str
    line: int
    kind: str
    """The language of the fence, "plain" without one, "indented" without a fence."""
    text: str

    @property
    def first(self) -> str:
        """Return the block's name, which is its first meaningful line."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


def blocks_of(document: Path, name: str) -> Iterator[Block]:
    """Return a document's blocks, in order."""
    lines = document.read_text(encoding="utf-8").splitlines()
    at, in_list = 0, False
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = at + 1
            while not lines[end].strip().startswith(fence[2]):
                end += 1
            indent = len(fence[1])
            text = "\n".join(one[indent:] for one in lines[at + 1 : end])
            yield Block(name, at + 1, fence[3] or "plain", text)
            at = end + 1
            continue
        begins = at == 0 or not lines[at - 1].strip() or lines[at - 1].startswith("#")
        if line.startswith(INDENT) and begins and not in_list:
            end = at
            while end < len(lines) and (lines[end].startswith(INDENT) or not lines[end].strip()):
                end += 1
            text = "\n".join(one[4:] for one in lines[at:end]).rstrip()
            yield Block(name, at + 1, "indented", text)
            at = end
            continue
        if _LIST.match(line):
            in_list = True
        elif line.strip() and not line.startswith("  "):
            in_list = False
        at += 1


_END = re.compile(r"^(?:\||\|\||&&|&|;|>|>>|2>|<)$")


def commands_of(text: str) -> Iterator[list[str]]:
    """Return the arguments of each memreplay command in shell text, or in prose that quotes one."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        for match in re.finditer(r"(?<![\w./\"-])memreplay (?=[a-z-])", line):
            before = line[: match.start()].strip()
            # A word in a sentence, or an argument of another program, isn't a command.
            if before and not re.search(r"(?:\$|do|\||;|&&|\|\||- run:|-|sh '|\(|else)$", before):
                continue
            rest = line[match.start() :]
            if before.endswith("sh '"):
                rest = rest.partition("'")[0]
            yield words_of(rest)


def words_of(text: str) -> list[str]:
    """Return a command's words up to a pipe, redirection or comment."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;><()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found: list[str] = []
    try:
        for word in lexer:
            if _END.match(word) or re.fullmatch(r"[|&;<>()]+", word):
                break
            found.append(word)
    except ValueError:  # a quote that is closed on another line
        pass
    return found[1:]
