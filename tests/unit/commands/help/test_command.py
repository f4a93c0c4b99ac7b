"""help: printing the documentation pages in the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.help import command as pages
from memreplay.commands.shared.listed import COMMANDS
from tests.conftest import ROOT

DOCS = ROOT / "docs"


def test_all_pages_are_listed(runner: CliRunner) -> None:
    done = runner.invoke(app, ["help"])
    assert (done.exit_code, done.stderr) == (0, "")
    listed = re.findall(r"^([a-z0-9/-]+)  +\S", done.stdout, re.MULTILINE)
    tutorials = sorted(f"tutorials/{page.stem}" for page in (DOCS / "tutorials").glob("*.md"))
    assert listed == sorted(page.stem for page in DOCS.glob("*.md")) + tutorials
    assert "tutorials/out-of-memory" in listed
    assert all(len(line) <= pages.WIDEST for line in done.stdout.splitlines())
    assert re.search(r"^index +Where do I start\?$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("topic", ["oom", "oom.md", "docs/oom.md"])
def test_page_is_printed(runner: CliRunner, topic: str) -> None:
    done = runner.invoke(app, ["help", topic])
    assert done.exit_code == 0
    assert done.stdout == (DOCS / "oom.md").read_text(encoding="utf-8")


def test_links_in_the_index_name_tutorials(runner: CliRunner) -> None:
    index = runner.invoke(app, ["help", "index"]).stdout
    links = re.findall(r"\((tutorials/[a-z-]+\.md)\)", index)
    assert len(links) == 5
    for link in links:
        done = runner.invoke(app, ["help", link])
        assert done.stdout == (DOCS / link).read_text(encoding="utf-8")


@pytest.mark.parametrize("topic", ["nothing", "../README"])
def test_unknown_page_is_an_error(runner: CliRunner, topic: str) -> None:
    done = runner.invoke(app, ["help", topic])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"unknown page {topic!r}; pages: allocations, " in done.stderr


def test_link_that_was_checked_out_as_text_is_followed(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "odd.md").write_text("*Is this odd?*\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "pages").write_text("../docs")
    monkeypatch.setattr(pages, "PAGES", tmp_path / "src" / "pages")
    assert runner.invoke(app, ["help", "odd"]).stdout == "*Is this odd?*\n"


def test_error_if_the_package_has_no_pages(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "PAGES", tmp_path)
    done = runner.invoke(app, ["help"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "this installation has no help pages; install memreplay from a wheel" in done.stderr


def test_messages_name_existing_pages() -> None:
    named = set()
    for path in (ROOT / "src/memreplay").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"memreplay help ((?:tutorials/)?[a-z][a-z-]+)", text))
    assert "recording" in named
    paths = (
        page.relative_to(DOCS)
        for place in (".", "tutorials")
        for page in (DOCS / place).glob("*.md")
    )
    assert named <= {path.with_suffix("").as_posix() for path in paths}


def test_names_are_completed(runner: CliRunner) -> None:
    environ = {"_MEMREPLAY_COMPLETE": "bash_complete", "COMP_WORDS": "memreplay help oo"}
    done = runner.invoke(app, [], prog_name="memreplay", env=environ | {"COMP_CWORD": "2"})
    assert done.stdout.split() == ["plain,oom"]
    assert "help" in COMMANDS


@pytest.mark.parametrize(
    "topic, first",
    [
        ("OOM", "# memreplay oom"),
        ("out-of-memory", "# My run ran out of memory"),
        ("Out of Memory", "# My run ran out of memory"),
        ("Numbers.md", "# What the numbers mean"),
    ],
)
def test_page_names_may_be_spelled_in_several_ways(
    runner: CliRunner, topic: str, first: str
) -> None:
    done = runner.invoke(app, ["help", topic])
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, first)


@pytest.mark.parametrize(
    "topic, words",
    [
        ("schemas", "did you mean schema?"),
        ("ooom", "did you mean oom?"),
        ("peek", "did you mean peak?"),
        ("tutorial", "tutorials/"),
    ],
)
def test_unknown_page_suggests_similar_pages(runner: CliRunner, topic: str, words: str) -> None:
    done = runner.invoke(app, ["help", topic])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_help_of_an_option_is_printed(runner: CliRunner) -> None:
    found = " ".join(runner.invoke(app, ["help", "only"]).stdout.split())
    assert ": new. In: watch." in found
    assert "pool=ID, stream=N. In: steps." in found
    search = runner.invoke(app, ["help", "search"]).stdout
    assert search.startswith("--search [card|settings]  Find the smallest card")
    # A page comes before an option.
    assert runner.invoke(app, ["help", "oom"]).stdout.startswith("# memreplay oom")
