"""Tests of export/page/html.py: a browser reads the file's contents unchanged."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.export.page import html
from memreplay.export.page.building import page_data
from memreplay.export.page.html import page_html
from memreplay.export.page.pages import page_of
from memreplay.export.page.records import Page
from memreplay.render.blocks import NoteBlock
from memreplay.render.record_json import plain
from tests import build
from tests.build import SnapshotBuilder

# Unescaped, each of these would end its element or start another.
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>--></style></title>",
    '"><img src=x onerror=alert(1)>',
    "&lt;b&gt;&#60;",
    "a\u2028b\u2029c",
    "nul \0 lone \ud800 bell \x07 \r\n",
    "\u202eevil\u2066",
    "\\u003c \\",
)


class Element:
    """A tag with its contents."""

    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag, self.attributes, self.text = tag, attributes, ""


class Parsed(HTMLParser):
    """Parser for a page's elements, in order of their start."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def all(self, tag: str) -> list[Element]:
        return [one for one in self.elements if one.tag == tag]

    def by_id(self, name: str) -> Element:
        (found,) = (one for one in self.elements if one.attributes.get("id") == name)
        return found

    @property
    def columns(self) -> list[str]:
        return [one.text for one in self.all("script") if one.attributes.get("class")]


def snapshot(*names: str) -> mr.Snapshot:
    builder = SnapshotBuilder()
    for i, name in enumerate(names):
        builder.alloc(0x1000 * (i + 1), 64 + i, frames=[(name, f"{name}.py", i + 1)])
    return mr.open(build.dump(builder.build()))


def made(*names: str, title: str = "snap.pkl") -> tuple[Page, list[bytes]]:
    return page_of([page_data(snapshot(*names), name=title)])


def written(page: Page, columns: list[bytes]) -> str:
    # Newlines are not translated: the hash covers what a browser gets.
    return b"".join(page_html(page, columns)).decode("utf-8")


def test_page_has_its_elements_in_order() -> None:
    page = Parsed(written(*made("f")))
    assert [one.tag for one in page.elements] == [
        *("html", "head", *["meta"] * 6),
        *("title", "link", "style", "body", "main", "p", "noscript", "p"),
        *["script"] * 3,
    ]
    assert page.by_id("memreplay-root").text == ""
    assert page.by_id("memreplay-page").attributes["type"] == "application/json"
    assert page.elements[-1].attributes == {"id": "memreplay-script"}
    assert page.open == []


def test_records_round_trip() -> None:
    page, columns = made(*HOSTILE)
    found = Parsed(written(page, columns)).by_id("memreplay-page").text
    assert json.loads(found) == json.loads(json.dumps(plain(page)))
    assert "<" not in found
    assert found.isascii()
    assert not any(ord(letter) < 0x20 for letter in found)


@pytest.mark.parametrize("name", HOSTILE)
def test_text_cannot_leave_its_element(name: str) -> None:
    usual = Parsed(written(*made("f")))
    page, columns = made(name, title=name)
    note = NoteBlock(name, warning=True)
    data = replace(page.snapshots[0], report=(note,), texts=(name,), options=(name,), file=name)
    page = replace(page, title=name, snapshots=(data,), diff=(note,))
    hostile = Parsed(written(page, columns))
    assert [(one.tag, one.attributes) for one in hostile.elements] == [
        (one.tag, one.attributes) for one in usual.elements
    ]
    for tag in ("style", "noscript", "main", "body", "head"):
        assert [one.text for one in hostile.all(tag)] == [one.text for one in usual.all(tag)]
    found = json.loads(hostile.by_id("memreplay-page").text)
    assert (found["title"], found["diff"][0]["text"]) == (name, name)


def test_title_is_escaped() -> None:
    page, columns = made("f")
    (title,) = Parsed(written(replace(page, title="</title>&amp;\u202e\0"), columns)).all("title")
    # The parser leaves references in a title alone; a browser decodes them.
    assert title.text in ("&lt;/title&gt;&amp;amp;\\u202e\\x00", "</title>&amp;\\u202e\\x00")


def test_columns_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert html.PIECE % 3 == 0
    monkeypatch.setattr(html, "PIECE", 6)
    page, columns = made(*map(str, range(40)))
    (text,) = Parsed(written(page, columns)).columns
    assert len(columns[0]) > 60
    assert base64.b64decode(text, validate=True) == columns[0]
    assert len(zlib.decompress(columns[0])) == page.snapshots[0].bytes


def test_every_snapshot_has_its_columns() -> None:
    pages = [made("f"), made("f", "g"), made()]
    page, columns = page_of(
        [(one.snapshots[0], data) for one, (data,) in pages], kind="ranks", title="run"
    )
    found = Parsed(written(page, columns)).columns
    assert [base64.b64decode(one) for one in found] == columns


def policy(page: Parsed) -> dict[str, list[str]]:
    (said,) = (
        one.attributes["content"]
        for one in page.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert said is not None
    rules = (rule.split() for rule in said.split(";"))
    return {name: sources for name, *sources in rules}


def sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("names", [(), HOSTILE])
def test_policy_allows_only_the_pages_own_script_and_style(names: tuple[str, ...]) -> None:
    page = Parsed(written(*made(*names)))
    (style,) = page.all("style")
    assert policy(page) == {
        "default-src": ["'none'"],
        "script-src": [sha(page.by_id("memreplay-script").text)],
        "worker-src": ["blob:"],
        "style-src": [sha(style.text)],
        "img-src": ["data:", "blob:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }


def test_script_loaded_by_a_browser_matches_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"viewer.js": "let é = '\u2028';\n".encode(), "viewer.css": b"a > b {}\n"}
    monkeypatch.setattr(html, "_asset", texts.__getitem__)
    page = Parsed(written(*made("f")))
    assert page.by_id("memreplay-script").text.encode() == texts["viewer.js"]
    assert policy(page)["script-src"] == [sha("let é = '\u2028';\n")]
    assert policy(page)["style-src"] == [sha("a > b {}\n")]


def test_bundle_can_be_embedded_in_a_page() -> None:
    """Nothing in it ends its element or changes when a browser reads it."""
    folder = Path(html.__file__).parent / "assets"
    script, style = ((folder / f"viewer.{kind}").read_bytes() for kind in ("js", "css"))
    for text in (script, style):
        text.decode("utf-8")
        assert b"\r" not in text
        assert b"\0" not in text
        assert not text.startswith(b"\xef\xbb\xbf")
    for ending in (b"</script", b"<script", b"<!--"):
        assert ending not in script.lower()
    assert b"</style" not in style.lower()
    for outside in (b"@import", b"url(http", b"sourceMappingURL"):
        assert outside not in style + script


def test_nothing_is_loaded_from_a_network() -> None:
    page = Parsed(written(*made("f")))
    for one in page.elements:
        assert not {"src", "srcset", "action", "style"} & set(one.attributes)
        assert not any(name.startswith("on") for name in one.attributes)
    (link,) = page.all("link")
    assert link.attributes == {"rel": "icon", "href": "data:,"}


def test_output_is_deterministic() -> None:
    assert written(*made("f", "g")) == written(*made("f", "g"))
