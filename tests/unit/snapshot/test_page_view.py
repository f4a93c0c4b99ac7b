"""Tests of snapshot/page_view.py: a page in a notebook, and as a file."""

from __future__ import annotations

import inspect
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from memreplay.snapshot import page_view
from memreplay.snapshot.page_view import HEIGHT, PageView
from memreplay.snapshot.snapshot import Snapshot

PAGE = '<!doctype html><p title="a&amp;b">&lt; é \u2028</p></iframe><script>1 && "2"</script>\n'


class Frames(HTMLParser):
    """Parser for the elements in a notebook's display."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        raise AssertionError(f"text: {data}")


def test_notebook_shows_a_page_in_its_own_frame() -> None:
    view = PageView(PAGE.encode(), 'a "b" <c>', 400)
    ((tag, attributes),) = Frames(view._repr_html_()).found
    assert tag == "iframe"
    assert attributes == {
        "title": 'a "b" <c>',
        # The page may run its script and save pictures, but can't access the notebook.
        "sandbox": "allow-scripts allow-downloads",
        "style": "width: 100%; height: 400px; border: 0",
        "srcdoc": PAGE,
    }


def test_notebook_says_that_a_page_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_view, "MOST_INLINE", 10)
    assert "<iframe" in PageView(b"x" * 10, "t")._repr_html_()
    said = PageView(b"x" * 11, "<b>")._repr_html_()
    assert said == (
        "<p>&lt;PageView &lt;b&gt;: 0.0 MiB&gt; is too large for a notebook: .save('page.html')</p>"
    )


def test_repr_has_the_title_and_the_size() -> None:
    assert repr(PageView(b"x" * (5 << 18), "snap.pkl")) == "<PageView snap.pkl: 1.2 MiB>"


def test_saved_page_has_the_same_bytes(tmp_path: Path) -> None:
    view = PageView(PAGE.encode(), "t")
    view.save(tmp_path / "a.html")
    view.save(f"{tmp_path}/a.html")
    assert (tmp_path / "a.html").read_bytes() == PAGE.encode()
    (tmp_path / "link.html").symlink_to("a.html")
    PageView(b"new", "t").save(tmp_path / "link.html")
    assert (tmp_path / "a.html").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["a.html", "link.html"]


def test_failed_save_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        PageView(b"x", "t").save(tmp_path / "missing" / "a.html")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        PageView(b"x", "t").save(tmp_path / "a.html")
    assert os.listdir(tmp_path) == []


def test_height_is_the_same_everywhere() -> None:
    assert inspect.signature(Snapshot.view).parameters["height"].default == HEIGHT
    assert PageView(b"", "t").height == HEIGHT
