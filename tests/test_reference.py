"""Tests of ci/reference: its pages are committed, and everything public is documented."""

from __future__ import annotations

import ast
import inspect
import re

import click
import pytest

import memreplay
from ci.reference import __main__ as maker
from ci.reference import commands, library, source, ways
from ci.reference.words import marked, table
from memreplay.commands.app import app
from memreplay.commands.shared.listed import COMMANDS
from memreplay.snapshot import columns


def test_committed_pages_are_up_to_date() -> None:
    for path, text in maker.committed_pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: make reference"


# --- commands -------------------------------------------------------------------------------------


def test_every_option_of_every_command_is_listed() -> None:
    told = re.split(r"^## memreplay (.*)$", commands.page(), flags=re.MULTILINE)[1:]
    parts = dict(zip(told[::2], told[1::2], strict=True))
    assert {*parts} == {*COMMANDS}
    shared = commands.page().partition(f"## {commands.SHARED}")[2].partition("\n## ")[0]
    for name, part in parts.items():
        command = app.get_command(click.Context(app), name)
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                for option in param.opts:
                    written = (f"`{option}", f"<code>{option}")
                    assert any(one in text for one in written for text in (part, shared)), (
                        name,
                        option,
                    )
        assert "**Exit codes**" in part or name in ("help", "completion"), name


@click.command(epilog="\b\nExamples:\n  memreplay x a.pkl\n\nExit codes: 0 success.")
@click.option("--size", "-s", type=click.IntRange(1, 9), default=3, show_default=True, help="How.")
@click.option("--kind", type=click.Choice(["a", "b"]), help="Which.")
@click.option("--over", is_flag=True, default=True, show_default=True, help="If <so>.")
@click.option("--secret", hidden=True)
@click.argument("file")
@click.argument("more", nargs=-1)
def odd() -> None:
    """Does `this`.

    Not [[that]].
    """


def test_command_page_shows_usage_options_and_examples() -> None:
    told = commands._told("odd", odd, [])
    assert "```text\nmemreplay odd [OPTIONS] FILE [MORE...]\n```" in told
    assert "Does `this`.\n\nNot \\[\\[that\\]\\].\n" in told
    assert "| `--size INTEGER`, `-s` | How. A number: at least 1, at most 9. | `3` |" in told
    assert "| `--kind KIND` | Which. One of `a`, `b`. |  |" in told
    assert "| `--over` | If &lt;so&gt;. |  |" in told
    assert "secret" not in told
    assert "**Examples**\n\n```sh\nmemreplay x a.pkl\n```" in told
    assert "**Exit codes**: 0 success." in told


def test_grouping_keys_are_described() -> None:
    told = ways.page("before\n<!-- ways -->\nstale\n<!-- end of ways -->\nafter\n")
    assert told.startswith("before\n<!-- ways -->\n| way |")
    assert "| `stack` | have the same call stack |\n" in told
    assert told.endswith("<!-- end of ways -->\nafter\n")
    assert "stale" not in told


# --- Python ---------------------------------------------------------------------------------------


def test_every_public_name_is_listed() -> None:
    placed = [name for names in library.SECTIONS.values() for name in names]
    assert len(placed) == len(set(placed))
    tables = {
        name
        for name, one in vars(columns).items()
        if inspect.isclass(one) and issubclass(one, columns.Table) and one is not columns.Table
    }
    assert set(placed) == {*memreplay.__all__, *tables, *library.ELSEWHERE} - {"__version__"}


def test_everything_public_has_a_docstring() -> None:
    assert [name for name, doc in library.documented() if not doc.strip()] == []


def test_arrays_document_their_dtype() -> None:
    for name in (*library.TABLES, "LiveSet", "Lifetimes"):
        for member in source.shape_of(library.found(name), name).members:
            if "array" in member.kind:
                assert re.fullmatch(r"array of (u?int\d+|bool)", member.kind), (name, member)


def test_docstrings_name_every_argument() -> None:
    for name in memreplay.__all__:
        value = getattr(memreplay, name)
        if not inspect.isfunction(value):
            continue
        node = source._node(value)
        assert isinstance(node, ast.FunctionDef)
        doc = ast.get_docstring(node) or ""
        for argument in [*node.args.args[1:], *node.args.kwonlyargs]:
            if argument.arg not in ("selection", "options"):
                named = rf"`{argument.arg}\b|^(?:\w+, )?{argument.arg}\b.* : |\b{argument.arg}="
                assert re.search(named, doc, re.MULTILINE), f"{name}: {argument.arg}"


class Base:
    """The text below."""

    def __init__(self, size: int) -> None:
        self.size = size
        """How large."""
        self.hidden = size


def test_class_page_matches_its_source() -> None:
    shape = source.shape_of(Base, "Base")
    assert (shape.doc, shape.signature) == ("The text below.", "Base(size: int)")
    members = source._members(source._class(Base))
    assert [(one.name, one.kind, one.doc) for one in members] == [("size", "int", "How large.")]


def test_docstring_sections_become_lists() -> None:
    doc = "Does.\n\nParameters\n----------\na, b : int\n    Two\n    lines.\n\n"
    doc += "Raises\n------\nOSError\n    If."
    assert list(library.prose(doc)) == [
        "Does.\n",
        "**Parameters**\n",
        "- `a, b` (int): Two lines.\n",
        "**Raises**\n",
        "- `OSError`: If.\n",
    ]


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\n  b | c", "a b \\| c"),
        ("with --salvage and -- so", "with `--salvage` and -- so"),
        ("`a | <b_c>` and ``d``", "<code>a &#124; &lt;b_c&gt;</code> and `d`"),
        ("see docs/steps.md.", "see [steps](../steps.md)."),
        ("(memreplay help json)", "([`memreplay help json`](../json.md))"),
        ("memreplay help nothing", "`memreplay help nothing`"),
        ("which [bytes](numbers.md#the-measures)", "which [bytes](../numbers.md#the-measures)"),
        ("[[gate]] <x> 2**32", "\\[\\[gate\\]\\] &lt;x&gt; 2\\*\\*32"),
    ],
)
def test_prose_is_escaped_and_names_are_marked_as_code(text: str, shown: str) -> None:
    assert marked(text) == shown


def test_table_is_written_as_markdown() -> None:
    assert table(("a", "b"), ("1", "2")) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
