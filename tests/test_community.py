"""What a repository says of itself: issue forms, citation, promises of security, by their rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import memreplay
from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))
# What GitHub takes in a form: of each kind of element its attributes, those that it needs first.
ATTRIBUTES = {
    "markdown": (("value",), ()),
    "input": (("label",), ("description", "placeholder", "value")),
    "textarea": (("label",), ("description", "placeholder", "value", "render")),
    "dropdown": (("label", "options"), ("description", "multiple", "default")),
    "checkboxes": (("label", "options"), ("description",)),
}
NEEDED = ("name", "description", "body")
ALLOWED = {*NEEDED, "labels", "title", "assignees", "projects", "type"}
ID = re.compile(r"[A-Za-z0-9_-]+")


def wrong_in_form(form: Any) -> list[str]:
    """What GitHub would refuse of an issue form."""
    if not isinstance(form, dict):
        return ["not a mapping"]
    found = [f"no {key}" for key in NEEDED if not form.get(key)]
    found += [f"unknown key {key}" for key in form if key not in ALLOWED]
    found += [f"{key} is no text" for key in NEEDED[:2] if not isinstance(form.get(key), str)]
    if not all(isinstance(one, str) for one in form.get("labels", [])):
        found.append("labels are not texts")
    body = form.get("body") or []
    seen: set[str] = set()
    for at, element in enumerate(body):
        found += [f"element {at}: {words}" for words in _wrong_in_element(element, seen)]
    if all(element.get("type") == "markdown" for element in body):
        found.append("nothing to fill in")
    labels = [element.get("attributes", {}).get("label") for element in body]
    labels = [label for label in labels if label]
    if len(labels) != len(set(labels)):
        found.append("two elements have one label")
    return found


def _wrong_in_element(element: dict[str, Any], seen: set[str]) -> list[str]:
    kind = element.get("type", "")
    if kind not in ATTRIBUTES:
        return [f"unknown type {kind!r}"]
    found = [f"unknown key {key}" for key in element if key not in _keys(kind)]
    name = element.get("id")
    if name is not None:
        if not ID.fullmatch(str(name)):
            found.append(f"id {name!r}")
        if name in seen:
            found.append(f"id {name} is there twice")
        seen.add(name)
    attributes = element.get("attributes", {})
    needed, more = ATTRIBUTES[kind]
    found += [f"no {key}" for key in needed if not attributes.get(key)]
    found += [f"unknown attribute {key}" for key in attributes if key not in (*needed, *more)]
    texts = ("label", "description", "placeholder", "value", "render")
    found += [
        f"{key} is no text"
        for key in texts
        if key in attributes and not isinstance(attributes[key], str)
    ]
    options = attributes.get("options", [])
    if kind == "dropdown" and not all(isinstance(one, str) for one in options):
        found.append("an option is no text: put it in quotes")
    if kind == "dropdown" and len(options) != len(set(map(str, options))):
        found.append("an option is there twice")
    if set(element.get("validations", {})) - {"required"}:
        found.append("unknown validation")
    if type(element.get("validations", {}).get("required", True)) is not bool:
        found.append("required is neither true nor false")
    return found


def _keys(kind: str) -> set[str]:
    return {"type", "attributes"} | (set() if kind == "markdown" else {"id", "validations"})


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_one_that_github_takes(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert wrong_in_form(form) == []


def test_forms_ask_what_is_needed() -> None:
    assert [path.stem for path in FORMS] == ["1-bug", "2-wrong-number", "3-feature"]
    bug = FORMS[0].read_text(encoding="utf-8")
    for words in ("memreplay --version", "memreplay summary", "memreplay export", "--strip-frames"):
        assert words in bug
    config = yaml.safe_load((FORMS[0].parent / "config.yml").read_text(encoding="utf-8"))
    assert config == {"blank_issues_enabled": True}


INPUT: dict[str, Any] = {"type": "input", "id": "a", "attributes": {"label": "A"}}
DROPDOWN: dict[str, Any] = {"type": "dropdown", "attributes": {"label": "B", "options": ["x"]}}


@pytest.mark.parametrize(
    "body, words",
    [
        ([INPUT, DROPDOWN], None),
        ([INPUT, INPUT], "id a is there twice"),
        ([{**INPUT, "type": "text"}], "unknown type 'text'"),
        ([{**INPUT, "attributes": {}}], "no label"),
        ([{**INPUT, "id": "a b"}], "id 'a b'"),
        ([{**INPUT, "required": True}], "unknown key required"),
        ([{**INPUT, "validations": {"required": "yes"}}], "neither true nor false"),
        ([{**DROPDOWN, "attributes": {"label": "B", "options": [False]}}], "is no text"),
        ([{**DROPDOWN, "attributes": {"label": "B", "options": ["x", "x"]}}], "is there twice"),
        ([{"type": "markdown", "attributes": {"value": "x"}}], "nothing to fill in"),
        ([], "no body"),
    ],
)
def test_a_form_that_github_refuses(body: list[Any], words: str | None) -> None:
    found = wrong_in_form({"name": "a", "description": "b", "body": body})
    assert any(words in one for one in found) if words else found == []


def test_the_citation_has_the_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == memreplay.__version__
    assert cited["authors"] == [{"name": "The memreplay developers"}]
    assert cited["license"] == "MIT"


def test_each_promise_of_security_has_tests_that_are_there() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = text.partition("| promise | held by |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{file} has no {test}"


def test_no_page_names_a_place_that_nobody_has() -> None:
    pages = [ROOT / name for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff")]
    for page in [*pages, *(ROOT / ".github").rglob("*.*")]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"[\w.]+@[\w-]+\.\w+|github\.com/", text), page


def test_the_action_is_named_by_this_version() -> None:
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:@|rev: )v(\d+\.\d+\.\d+)", text)
    assert named
    assert {*named} == {memreplay.__version__}
