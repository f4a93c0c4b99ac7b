"""Tests of the documentation site: the navigation in mkdocs.yml, and ci/site_links.py."""

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
# These pages aren't committed, because building the site generates them.
GENERATED = {"reference/json.md", "reference/python.md"}
PAGES = sorted({path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - GENERATED)
TEXTS = (*PAGES, "../README.md", "../CONTRIBUTING.md", "../examples/README.md")


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
    """Return the pages listed in a `nav`."""
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav:
            yield from named(one)


def test_navigation_lists_every_page_once() -> None:
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(named(told["nav"])) == sorted({*PAGES, *GENERATED})


@pytest.mark.parametrize("page", PAGES)
def test_pages_link_only_within_docs(page: str) -> None:
    path = DOCS / page
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=FLAGS)
    for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text):
        assert (path.parent / target).resolve().is_relative_to(DOCS), target


@pytest.mark.parametrize("page", PAGES)
def test_no_code_contains_an_escaped_pipe(page: str) -> None:
    """GitHub needs the escape inside tables, but the site would show the backslash."""
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


def test_working_links_pass(tmp_path: Path) -> None:
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
def test_broken_links_are_reported(tmp_path: Path, text: str, flaw: str) -> None:
    assert flaws(tmp_path / "site", a=text, b='<p id="x"></p>') == [flaw]


def test_empty_site_is_reported(tmp_path: Path) -> None:
    assert links.flaws_of(tmp_path)[0] == [f"{tmp_path} has no pages"]


def test_broken_links_set_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.org/x"></a>', encoding="utf-8")
    assert links.main([str(tmp_path), "--external"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}: 1 pages, 1 places outside, 0 flaws",
        "  https://a.org/x",
    ]
    (tmp_path / "a.html").write_text('<a href="b.html"></a>', encoding="utf-8")
    assert links.main([str(tmp_path)]) == 1
    assert "a.html: 'b.html' leads nowhere" in capsys.readouterr().out


def headings_of(text: str) -> list[str]:
    """Return a document's headings, without the comments in its code blocks."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)


def anchors_of(text: str) -> set[str]:
    """Return the anchors that a site or GitHub generates for a document's headings."""
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings_of(text)}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_to_existing_files_and_headings(page: str) -> None:
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", (DOCS / page).read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = DOCS / page if not path else (DOCS / page).parent / path
        if path not in GENERATED:
            assert target.exists(), link
            assert not anchor or anchor in anchors_of(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", TEXTS)
def test_headings_are_short(page: str) -> None:
    """A long heading means that a paragraph was joined to its heading by mistake."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert all(len(heading) <= 70 for heading in headings_of(text))
