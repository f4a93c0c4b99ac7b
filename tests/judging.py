r"""Judge each kind of output independently of memreplay's own escaping.

Each judge takes an output's bytes, and fails if a string from a file could have an effect there.
The judges know Unicode categories, CI runners, and each format's parsers, but nothing about
memreplay.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unicodedata import category
from xml.etree import ElementTree

import jsonschema

Judge = Callable[[bytes], None]

SCHEMAS = Path(__file__).parent / "schemas"
# Invisible characters (Unicode's Default_Ignorable_Code_Point), except those in the categories
# below.
IGNORED = [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, 0xFFA0]
IGNORED += [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
# Control and format characters (including direction marks), surrogates, private and unassigned
# characters, and line separators.
UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
TOWER = 16


# ---- text ----------------------------------------------------------------------------------------


def shown(text: str) -> None:
    """Check that the text is a single line of visible characters."""
    marks = 0
    for one in text:
        assert category(one) not in UNSHOWN, (ascii(one), ascii(text)[:300])
        assert ord(one) not in IGNORED, (ascii(one), ascii(text)[:300])
        marks = marks + 1 if category(one) in ("Mn", "Me") else 0
        assert marks <= TOWER, ascii(text)[:300]


def logged(text: str) -> None:
    """Check that no line is a CI runner's command: GitHub's (in either form), Azure's or
    TeamCity's.
    """
    for line in text.split("\n"):
        begin = line.lstrip()
        assert not (begin.startswith("::") and "::" in begin[2:]), ascii(line)
        for prefix in ("##[", "##vso[", "##teamcity["):
            assert prefix not in line, ascii(line)


def plain(data: bytes) -> None:
    """Judge text for pipes and logs."""
    text = data.decode()
    for line in text.split("\n"):
        shown(line)
    logged(text)


def coloured(data: bytes) -> None:
    """Judge text for a terminal: the only escape sequences are styles, which end by the end of the
    line.
    """
    plain(STYLE.sub("", data.decode()).encode())
    for line in data.decode().split("\n"):
        styles = STYLE.findall(line)
        assert not styles or styles[-1] == "\x1b[0m", ascii(line)


# ---- Markdown ------------------------------------------------------------------------------------

# Markup that GitHub and GitLab would find in a page's text, outside code.
LIVE = re.compile(
    r"@\w|(?:https?|ftp)://|www\.|mailto:|xmpp:|#\d|GH-\d|(?<!\w)!\d|:(?:tada|cat|\+1):",
    re.IGNORECASE,
)


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    made: Any = MarkdownIt("gfm-like")
    # GitHub doesn't link names that resemble hosts, such as model.py.
    made.linkify.set({"fuzzy_link": False, "fuzzy_email": True})
    return made


def markdown(data: bytes) -> None:
    """Judge GitHub's Markdown: all headings, lists, quotes, tables and bold words are memreplay's
    own.
    """
    text = data.decode()
    for line in text.split("\n"):
        shown(line)
    logged(text)
    lines = text.split("\n")
    for token in _markdown().parse(text):
        _block(token, lines)
        if token.type == "inline":
            _inline(token.children or [])


def _block(token: Any, lines: list[str]) -> None:
    where = "\n".join(lines[slice(*token.map)])[:300] if token.map else token.content[:300]
    assert token.type not in ("html_block", "code_block", "hr", "ordered_list_open"), ascii(where)
    if token.type == "heading_open":
        assert token.tag in ("h3", "h4"), ascii(where)
        assert token.markup in ("###", "####"), ascii(where)
    if token.type == "fence":
        assert token.info == "", ascii(where)
        assert lines[token.map[1] - 1] == token.markup, ascii(where)
    if token.type == "blockquote_open":
        assert re.match(r"> \*\*(note|warning):\*\* ", where), ascii(where)


def _inline(tokens: list[Any]) -> None:
    run = ""
    strong = False
    for one in tokens:
        if one.type in ("text", "text_special"):
            assert not (strong and one.content.startswith("evil")), ascii(one.content)
            run += one.content
            continue
        if one.type == "html_inline":
            assert one.content == "<br>", ascii(one.content)
        else:
            assert one.type in ("code_inline", "strong_open", "strong_close", "softbreak"), (
                one.type,
                ascii(one.content),
            )
        strong = one.type == "strong_open"
        assert not LIVE.search(run), ascii(run)
        run = ""
    assert not LIVE.search(run), ascii(run)


# ---- formats for CI jobs -------------------------------------------------------------------------


def github(data: bytes) -> None:
    """Judge workflow commands: every line is a command, as the runner parses it."""
    text = data.decode()
    for line in text.strip("\n").split("\n"):
        assert line.startswith("::"), ascii(line)
        head, end, words = line[2:].partition("::")
        assert end, ascii(line)
        name, _, properties = head.partition(" ")
        assert name in ("error", "notice", "warning"), ascii(line)
        for part in properties.split(","):
            key, equals, value = part.partition("=")
            assert equals, ascii(line)
            assert key in ("file", "line", "title"), ascii(line)
            assert ":" not in value, ascii(line)
            value = value.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":")
            shown(value.replace("%2C", ",").replace("%25", "%"))
        words = words.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        shown(words)
        for prefix in ("##[", "##vso[", "##teamcity["):
            assert prefix not in line, ascii(line)


CASES = {
    "testsuites": {"name", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped"},
    "testcase": {"name", "classname"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"message"},
    "system-out": set(),
}


def junit(data: bytes) -> None:
    """Judge JUnit XML: valid XML 1.0, and only JUnit's elements."""
    logged(data.decode())
    for one in ElementTree.fromstring(data).iter():
        assert set(one.attrib) <= CASES[one.tag]
        for value in one.attrib.values():
            shown(value)
        for line in (one.text or "").split("\n"):
            shown(line)


@cache
def _sarif() -> Any:
    return jsonschema.Draft4Validator(
        json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    )


def sarif(data: bytes) -> None:
    """Judge SARIF: it follows its schema, messages contain no links, and URIs contain only plain
    letters.
    """
    found = as_json(data)
    _sarif().validate(found)
    for one in found["runs"][0]["results"]:
        words = one["message"]["text"]
        shown(words)
        assert not re.search(r"\[[^\]]*\]\(", words), ascii(words)
        for place in one["locations"]:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"(file:///)?[A-Za-z0-9%._~/-]+", uri), ascii(uri)


# ---- data ----------------------------------------------------------------------------------------


def as_json(data: bytes) -> Any:
    """Judge JSON that every reader accepts: ASCII, without a line that a CI runner takes for a
    command.
    """
    text = data.decode("ascii")
    logged(text)
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(name)


def ndjson(data: bytes) -> None:
    """Judge one JSON object per line."""
    for line in data.decode("ascii").rstrip("\n").split("\n"):
        assert isinstance(as_json(line.encode()), dict)


def utf8_json(data: bytes) -> None:
    """Judge JSON with unescaped letters."""
    text = data.decode()
    logged(text)
    json.loads(text, parse_constant=_no_constant)


def comma_separated(data: bytes) -> None:
    """Judge CSV: all rows have as many fields as the first."""
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}


def collapsed(data: bytes) -> None:
    """Judge lines of frames and a number."""
    plain(data)
    for line in data.decode().rstrip("\n").split("\n"):
        frames, _, number = line.rpartition(" ")
        assert number.isdecimal(), ascii(line)
        assert all(name.strip() for name in frames.split(";")), ascii(line)


def arrow(data: bytes) -> None:
    import pyarrow.ipc

    pyarrow.ipc.open_file(io.BytesIO(data)).read_all()


def parquet(data: bytes) -> None:
    import pyarrow.parquet

    pyarrow.parquet.read_table(io.BytesIO(data))


def png(data: bytes) -> None:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")


def pickled(data: bytes) -> None:
    import memreplay as mr

    mr.open(data)


def pprof(data: bytes) -> None:
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    assert b"evil" in plain  # kept as is


def perfetto(data: bytes) -> None:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    trace = proto.Trace()
    trace.ParseFromString(data)
    assert trace.packet


# ---- XML and HTML --------------------------------------------------------------------------------

DRAWN = {"svg", "metadata", "RDF", "Work", "type", "format", "creator", "Agent", "title", "date"}
DRAWN |= {"defs", "style", "g", "path", "use", "clipPath", "rect", "image", "text", "tspan"}
DRAWN |= {"pattern", "linearGradient", "stop"}


def svg(data: bytes) -> None:
    """Judge a drawing's XML: no scripts, handlers or external links."""
    logged(data.decode())
    for one in ElementTree.fromstring(data).iter():
        assert one.tag.rpartition("}")[2] in DRAWN, one.tag
        for name, value in one.attrib.items():
            bare = name.rpartition("}")[2]
            assert not bare.lower().startswith("on"), (name, value)
            if bare == "href":
                assert value.startswith(("#", "data:image/png;base64,")), (name, value)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.last = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.last = tag

    def handle_endtag(self, tag: str) -> None:
        self.last = ""

    def handle_data(self, data: str) -> None:
        self.texts.append((self.last, data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data[:200])

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data[:200])

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data[:200])


def _parsed(data: bytes) -> _Elements:
    parser = _Elements()
    parser.feed(data.decode())
    parser.close()
    return parser


PAGE = {
    "html": {"lang"},
    "head": set(),
    "meta": {"charset", "http-equiv", "content", "name"},
    "title": set(),
    "link": {"rel", "href"},
    "style": set(),
    "body": set(),
    "main": {"id"},
    "noscript": set(),
    "p": set(),
    "script": {"type", "id", "class"},
    "img": {"alt", "src"},
}


def page(data: bytes) -> None:
    """Judge a memreplay page: only its own elements, one script that runs, and JSON data."""
    parsed = _parsed(data)
    for tag, attributes in parsed.found:
        assert set(attributes) <= PAGE[tag], (tag, attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:")
    scripts = [one for tag, one in parsed.found if tag == "script"]
    assert [one.get("id") for one in scripts if "type" not in one] in (["memreplay-script"], [])
    for tag, words in parsed.texts:
        if tag == "title":
            shown(words)
    for start in re.finditer(rb'<script type="application/json"[^>]*>', data):
        records = data[start.end() : data.index(b"</script>", start.end())]
        for words in strings(as_json(records)):
            shown(words.replace("\n", ""))


# The elements in a notebook's display, and their allowed attributes.
NOTEBOOK: dict[str, dict[str, str]] = {
    **{tag: {} for tag in ("table", "caption", "tr", "div", "p", "strong", "em", "pre", "br")},
    "th": {"colspan": r"\d+"},
    "td": {"colspan": r"\d+", "style": "text-align: (left|right)"},
}


def notebook(data: bytes) -> None:
    """Judge how a notebook displays a value: tables and a report's paragraphs."""
    parsed = _parsed(data)
    for tag, attributes in parsed.found:
        assert tag in NOTEBOOK, tag
        for name, value in attributes.items():
            assert name in NOTEBOOK[tag], (tag, attributes)
            assert re.fullmatch(NOTEBOOK[tag][name], value or ""), (tag, attributes)
    for _, words in parsed.texts:
        shown(words.replace("\n", ""))


def strings(value: Any) -> Iterator[str]:
    """Return all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
