"""Tests of commands/shared/by.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.by import ByType

context, option = click.Context(click.Command("x")), click.Option(["--by"])


@pytest.mark.parametrize(
    "text, by",
    [
        ("stack", "stack"),
        ("category,file", "category,file"),
        (" file , size,file", "file,size"),
        ("user-frame", "frame"),
        ("compile-context,modules", "compile_context,module"),
    ],
)
def test_ways(text: str, by: str) -> None:
    assert ByType().convert(text, None, None) == by


@pytest.mark.parametrize("text", ["", "colour", "file,", "file;size", "Stack"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not one of stack, frame, innermost"):
        ByType().convert(text, None, None)


@pytest.mark.parametrize(
    "begun, offered",
    [
        ("f", {"frame", "function", "file"}),
        ("category,", None),
        ("category,si", {"category,size"}),
        ("x", set()),
    ],
)
def test_completion(begun: str, offered: set[str] | None) -> None:
    found = {item.value for item in ByType().shell_complete(context, option, begun)}
    if offered is None:
        assert "category,pool" in found
    else:
        assert found == offered
