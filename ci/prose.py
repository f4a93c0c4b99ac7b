"""Check our prose against the rules in ci/prose.toml.

    python ci/prose.py                 fail if a file has more findings than ci/prose.txt allows
    python ci/prose.py FILE ...        print every finding in these files
    python ci/prose.py --update        write ci/prose.txt after findings were fixed

ci/prose.txt lists the files that still have findings, and how many. A file that isn't listed has to
be clean; a number may only fall.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "ci/prose.toml"
ALLOWED = ROOT / "ci/prose.txt"
GENERATED = ("docs/reference/", "docs/schemas/", "tests/data/", "tests/test_prose.py")
FEWEST_WORDS = 3  # shorter strings are names and labels

# A sentence ends at punctuation before a capital, at a blank line, at a list item, or at a table
# cell.
_SENTENCE = re.compile(
    r"(?<=[.!?])\s+(?=[A-Z`*\"'(])|\n\s*\n|\n\s*(?=[-*+] |\d+\. |\|)|\s\|\s|:\s*\n"
)
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``.+?``|`[^`]*`", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_COMMENT = re.compile(r"(?:^|(?<=\s))#[:!]?[ ]?(.*)$")
_NO_PROSE = re.compile(r"noqa|type: ignore|pragma|fmt: |cython:|distutils:|SPDX|^!|^-+$")


class Rule(NamedTuple):
    """One habit to avoid, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    say: str


class Text(NamedTuple):
    """A piece of prose and the line it starts on."""

    line: int
    text: str


class Finding(NamedTuple):
    """A sentence that breaks a rule."""

    line: int
    rule: Rule
    match: str
    sentence: str


def rules(path: Path = RULES) -> list[Rule]:
    """Read the rules."""
    table = tomllib.loads(path.read_text())
    return [
        Rule(one["name"], re.compile(one["pattern"], re.IGNORECASE), one["say"])
        for one in table["rule"]
    ]


def markdown(source: str) -> Iterator[Text]:
    """Yield the prose of a page, without code blocks and HTML."""
    blanked = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), source)
    blanked = re.sub(r"<!--.*?-->", lambda f: "\n" * f[0].count("\n"), blanked, flags=re.DOTALL)
    blanked = re.sub(r"^(    |\t)\S.*$", "", blanked, flags=re.MULTILINE)
    blanked = re.sub(r"^#+ .*$", "", blanked, flags=re.MULTILINE)  # headings may be questions
    yield Text(1, blanked)


def python(source: str) -> Iterator[Text]:
    """Yield the docstrings, comments and longer string literals of a module."""
    lines = source.encode().split(b"\n")
    inner: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):  # ast.walk visits parents before their children
        if node in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            inner.update(node.values)
            parts = [one.value if isinstance(one, ast.Constant) else "X" for one in node.values]
            yield Text(node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(node.lineno, node.value)
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, bytes)):
            continue
        _blank(lines, node)
    yield from _comments([line.decode(errors="replace") for line in lines])


def _blank(lines: list[bytes], node: ast.expr) -> None:
    """Blank out a literal, so that a # in it doesn't look like a comment."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    for at in range(first, last + 1):
        start = node.col_offset if at == first else 0
        stop = (node.end_col_offset or 0) if at == last else len(lines[at])
        lines[at] = lines[at][:start] + b"." * (stop - start) + lines[at][stop:]


def cython(source: str) -> Iterator[Text]:
    """Yield the docstrings and comments of a Cython module, which Python can't parse."""
    docs = re.compile(r'"""(.*?)"""', re.DOTALL)
    for found in docs.finditer(source):
        yield Text(source.count("\n", 0, found.start()) + 1, found[1])
    bare = docs.sub(lambda found: "\n" * found[0].count("\n"), source)
    yield from _comments(bare.split("\n"))


READERS = {".md": markdown, ".py": python, ".pyx": cython, ".pxd": cython}


def _comments(source: list[str]) -> Iterator[Text]:
    """Join comments on successive lines, because a sentence may span several."""
    start, lines = 0, list[str]()
    for at, line in enumerate([*source, ""], 1):
        found = _COMMENT.search(line)
        body = found[1].strip() if found else ""
        if not found or _NO_PROSE.search(body):
            if lines:
                yield Text(start, "\n".join(lines))
            lines = []
            continue
        if not lines:
            start = at
        lines.append(body)


def sentences(text: Text) -> Iterator[Text]:
    """Split prose into sentences, with code replaced by X."""
    plain = _LINK.sub(r"\1", _CODE.sub("X", text.text))
    at = 0
    for part in [*_SENTENCE.finditer(plain), None]:
        piece = plain[at : part.start() if part else len(plain)]
        words = " ".join(piece.split()).lstrip("-*+|>0123456789. ")
        if len(words.split()) >= FEWEST_WORDS:
            start = at + len(piece) - len(piece.lstrip())
            yield Text(text.line + plain.count("\n", 0, start), words)
        at = part.end() if part else at


def check(text: str, reader: str, every: list[Rule]) -> list[Finding]:
    """Return the findings in a source; `reader` is its file name's extension."""
    found = []
    for piece in READERS[reader](text):
        for line, sentence in sentences(piece):
            for rule in every:
                match = rule.pattern.search(sentence)
                if match:
                    found.append(Finding(line, rule, match[0], sentence))
    return sorted(found, key=lambda one: one.line)


def _files() -> list[str]:
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "*.md", "*.py", "*.pyx", "*.pxd"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [one for one in listed if not one.startswith(GENERATED)]


def _allowed() -> dict[str, int]:
    lines = ALLOWED.read_text().splitlines() if ALLOWED.exists() else []
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: int(count) for count, name in pairs}


def main() -> int:
    """Run the check and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="print every finding in these")
    parser.add_argument("--update", action="store_true", help="write the new numbers")
    asked = parser.parse_args()
    every = rules()
    counts: dict[str, int] = {}
    allowed = {} if asked.files else _allowed()
    failed = False
    for name in asked.files or _files():
        path = Path(name) if asked.files else ROOT / name
        found = check(path.read_text(), path.suffix, every)
        if found:
            counts[name] = len(found)
        if len(found) > allowed.get(name, 0) and not asked.update:
            failed = True
            if name in allowed:
                print(f"{name}: {len(found)} findings, {allowed[name]} before")
            for one in found:
                print(f"{name}:{one.line}: {one.match!r} ({one.rule.name}): {one.rule.say}")
    if asked.update:
        header = ALLOWED_HEADER + "".join(f"{n} {name}\n" for name, n in sorted(counts.items()))
        ALLOWED.write_text(header)
    return int(failed)


ALLOWED_HEADER = """\
# Findings of ci/prose.py that are left to fix, by file. `python ci/prose.py FILE` prints them and
# `python ci/prose.py --update` writes this list. A number may only fall.
"""

if __name__ == "__main__":
    sys.exit(main())
