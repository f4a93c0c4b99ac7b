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
    """The elements of what a notebook shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        raise AssertionError(f"text: {data}")


def test_a_notebook_has_it_in_a_frame_of_its_own() -> None:
    view = PageView(PAGE.encode(), 'a "b" <c>', 400)
    ((tag, attributes),) = Frames(view._repr_html_()).found
    assert tag == "iframe"
    assert attributes == {
        "title": 'a "b" <c>',
        # It may run its script and save pictures, and touches nothing of the notebook.
        "sandbox": "allow-scripts allow-downloads",
        "style": "width: 100%; height: 400px; border: 0",
        "srcdoc": PAGE,
    }


def test_what_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_view, "MOST_INLINE", 10)
    assert "<iframe" in PageView(b"x" * 10, "t")._repr_html_()
    said = PageView(b"x" * 11, "<b>")._repr_html_()
    assert said == (
        "<p>&lt;PageView &lt;b&gt;: 0.0 MiB&gt; is too large for a notebook: .save('page.html')</p>"
    )


def test_a_prompt() -> None:
    assert repr(PageView(b"x" * (5 << 18), "snap.pkl")) == "<PageView snap.pkl: 1.2 MiB>"


def test_saved(tmp_path: Path) -> None:
    view = PageView(PAGE.encode(), "t")
    view.save(tmp_path / "a.html")
    view.save(f"{tmp_path}/a.html")
    assert (tmp_path / "a.html").read_bytes() == PAGE.encode()
    (tmp_path / "link.html").symlink_to("a.html")
    PageView(b"new", "t").save(tmp_path / "link.html")
    assert (tmp_path / "a.html").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["a.html", "link.html"]


def test_what_cannot_be_saved_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        PageView(b"x", "t").save(tmp_path / "missing" / "a.html")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        PageView(b"x", "t").save(tmp_path / "a.html")
    assert os.listdir(tmp_path) == []


def test_the_height_is_the_same_wherever_it_is_asked_for() -> None:
    assert inspect.signature(Snapshot.view).parameters["height"].default == HEIGHT
    assert PageView(b"", "t").height == HEIGHT
