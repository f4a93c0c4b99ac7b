"""Tests of ci/prose.py: its rules find stilted sentences and leave plain English alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "ci/prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


prose = _loaded()
RULES = prose.rules()


def found(text: str, reader: str = ".md") -> list[str]:
    """Return the names of the rules that the text breaks."""
    return [one.rule.name for one in prose.check(text, reader, RULES)]


EXAMPLES = (ROOT / "tests/data/prose_examples.md").read_text().splitlines()
REWRITTEN = [line.strip("| ").split(" | ") for line in EXAMPLES if line.startswith("| ")][1:]


@pytest.mark.parametrize("before, after", REWRITTEN)
def test_rules_distinguish_stilted_from_plain_sentences(before: str, after: str) -> None:
    assert found(before)
    assert not found(after)


@pytest.mark.parametrize(
    "reader, text",
    [
        (".md", "```console\n$ x\nWhat has a stack, of such, is told.\n```\n"),
        (".md", "Call `what is told of such` once a run.\n"),
        (".py", 'x = "what"  # noqa: is none of a start\n'),
        (".py", "what_is_told_of_such = alone_of_those\n"),
    ],
)
def test_code_is_not_checked_as_prose(reader: str, text: str) -> None:
    assert not found(text, reader)


@pytest.mark.parametrize(
    "reader, text",
    [
        (".py", 'def f():\n    """Say what is there already."""\n'),
        (".py", "x = 1  # a rise of\n# such is none of an error\n"),
        (".py", 'raise ValueError(f"{x} is there already, and {y} is none")\n'),
        (".pyx", "cdef int f():\n    # a rise that\n    # is none of an error\n    return 1\n"),
        (".pyx", 'cdef int f():\n    """Say what is there already."""\n'),
        (".md", "- one item\n- a rise is none\n"),
    ],
)
def test_prose_is_found_in_docstrings_comments_strings_and_lists(reader: str, text: str) -> None:
    assert found(text, reader)


def test_finding_names_its_line() -> None:
    text = "First line.\n\nSecond\nparagraph here. The rise\nis none of it.\n"
    assert next(one.line for one in prose.check(text, ".md", RULES)) == 4


def test_more_findings_than_allowed_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "ALLOWED", tmp_path / "prose.txt")
    monkeypatch.setattr(prose, "_files", lambda: ["page.md"])
    monkeypatch.setattr(sys, "argv", ["prose.py"])
    page.write_text("The file is there already.\n")
    assert prose.main() == 1
    assert "page.md:1: 'is there already'" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["prose.py", "--update"])
    assert prose.main() == 0
    monkeypatch.setattr(sys, "argv", ["prose.py"])
    assert prose.main() == 0
    page.write_text("The file is there already. So is none of a page.\n")
    assert prose.main() == 1
