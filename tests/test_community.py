"""Tests of the issue forms, CITATION.cff and SECURITY.md. ci/workflows checks their schemas."""

from __future__ import annotations

import re

import pytest

import memreplay
from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))


def test_issue_forms_ask_for_the_required_details() -> None:
    assert [path.stem for path in FORMS] == ["1-bug", "2-wrong-number", "3-feature"]
    bug = FORMS[0].read_text(encoding="utf-8")
    for words in ("memreplay --version", "memreplay summary", "memreplay export", "--strip-frames"):
        assert words in bug
    config = yaml.safe_load((FORMS[0].parent / "config.yml").read_text(encoding="utf-8"))
    assert config == {"blank_issues_enabled": True}


def test_citation_has_the_current_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == memreplay.__version__
    assert cited["authors"] == [{"name": "The memreplay developers"}]
    assert cited["license"] == "MIT"


def test_every_promise_in_security_md_names_existing_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = text.partition("| promise | checked by |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{file} has no {test}"


def test_no_page_contains_a_made_up_url() -> None:
    pages = [ROOT / name for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff")]
    for page in [*pages, *(ROOT / ".github").rglob("*.*")]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"[\w.]+@[\w-]+\.\w+|github\.com/", text), page


def test_docs_use_the_actions_current_version() -> None:
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:@|rev: )v(\d+\.\d+\.\d+)", text)
    assert named
    assert {*named} == {memreplay.__version__}
