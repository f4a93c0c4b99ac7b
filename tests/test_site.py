"""Tests of the documentation as a site: what mkdocs.yml names, and ci/site_links.py."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "ci" / "site_links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = load()
FLAGS = re.MULTILINE | re.DOTALL


def named(nav: Any) -> Iterator[str]:
    """The pages that a nav names."""
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav:
            yield from named(one)


def test_the_navigation_has_every_page_once() -> None:
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(named(told["nav"])) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_links_to_nothing_beside_docs(page: str) -> None:
    path = DOCS / page
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=FLAGS)
    for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text):
        assert (path.parent / target).resolve().is_relative_to(DOCS), target


@pytest.mark.parametrize("page", PAGES)
def test_no_code_has_a_bar_that_is_escaped(page: str) -> None:
    """In a table GitHub wants it so, and the site would show the backslash."""
    text = re.sub(r"^```.*?^```", "", (DOCS / page).read_text(encoding="utf-8"), flags=FLAGS)
    assert re.findall(r"`[^`\n]*\\\|[^`\n]*`", text) == []


# --- links ----------------------------------------------------------------------------------------


def flaws(site: Path, **pages: str) -> list[str]:
    for name, text in pages.items():
        path = site / f"{name.replace('__', '/')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (site / "a.png").touch()
    found, _ = links.flaws_of(site)
    return [one.partition(": ")[2] for one in found]


def test_links_that_lead_somewhere(tmp_path: Path) -> None:
    page = '<a href="sub/b.html#x y"></a><a href="#top"></a><a href="#here"></a><p id="here"></p>'
    page += '<img src="a.png"><link rel="icon" href="a.png"><a href="https://a.org/b#c"></a>'
    page += '<a href="/sub/"></a><a href="mailto:a@b.org"></a><img src="data:image/png;base64,">'
    page += '<a href="sub/b.html?q=1#%C3%A9"></a><link rel="canonical" href="https://a.org">'
    below = '<p id="x y"></p><a name="é"></a><a href="../index.html"></a><a href="../a.png"></a>'
    assert flaws(tmp_path, index=page, sub__b=below, sub__index="") == []


@pytest.mark.parametrize(
    "text, flaw",
    [
        ('<a href="c.html"></a>', "'c.html' leads nowhere"),
        ('<a href="b.html#z"></a>', "'b.html#z' has an anchor that is not there"),
        ('<a href="#z"></a>', "'#z' has an anchor that is not there"),
        ('<a href="../../b.html"></a>', "'../../b.html' leaves the site"),
        ('<img src="c.png">', "'c.png' leads nowhere"),
        ('<img src="https://a.org/a.png">', "'https://a.org/a.png' is loaded from elsewhere"),
        (
            '<link rel="stylesheet" href="//a.org/a.css">',
            "'//a.org/a.css' is loaded from elsewhere",
        ),
        (
            '<script src="https://a.org/a.js"></script>',
            "'https://a.org/a.js' is loaded from elsewhere",
        ),
        ('<a href="http://a.org"></a>', "'http://a.org' is no https link"),
        ('<a href="https://a.org/ b"></a>', "'https://a.org/ b' is no https link"),
        ('<a href="https://here"></a>', "'https://here' is no https link"),
        ('<a href="mailto:a"></a>', "'mailto:a' is no address"),
        ('<p id="a"></p><p id="a"></p>', "two elements have the id 'a'"),
    ],
)
def test_links_that_do_not(tmp_path: Path, text: str, flaw: str) -> None:
    assert flaws(tmp_path / "site", a=text, b='<p id="x"></p>') == [flaw]


def test_a_site_of_nothing(tmp_path: Path) -> None:
    assert links.flaws_of(tmp_path)[0] == [f"{tmp_path} has no pages"]


def test_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.org/x"></a>', encoding="utf-8")
    assert links.main([str(tmp_path), "--external"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}: 1 pages, 1 places outside, 0 flaws",
        "  https://a.org/x",
    ]
    (tmp_path / "a.html").write_text('<a href="b.html"></a>', encoding="utf-8")
    assert links.main([str(tmp_path)]) == 1
    assert "a.html: 'b.html' leads nowhere" in capsys.readouterr().out
