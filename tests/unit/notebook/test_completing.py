"""Tests of notebook/completing.py: completing a line."""

from __future__ import annotations

import pytest

from memreplay.notebook.completing import completions
from tests.conftest import ROOT
from tests.unit.notebook.shells import Shell


@pytest.mark.parametrize(
    "text, found",
    [
        ("%memreplay pea", ["peak"]),
        ("memreplay pea", ["peak"]),
        ("%memreplay peak snap.pkl --dep", ["--depth"]),
        ("%memreplay peak 'my snap.pkl' --dep", ["--depth"]),
        ("%memreplay peak 'my snap --dep", ["--depth"]),
        ("%memreplay peak --format ", ["text", "json"]),
        ("%memreplay nothing --x", []),
        ("%%memreplay --max", ["--max-entries"]),
        ("%%memreplay --stacks ", ["auto", "python", "all"]),
    ],
)
def test_commands_options_and_values_are_completed(text: str, found: list[str]) -> None:
    assert completions(text) == found


@pytest.mark.parametrize("text", ["%memreplay peak sna", "%memreplay export x -o ", "print(1)"])
def test_file_names_are_left_to_others(text: str) -> None:
    assert completions(text) is None


def test_ipython_calls_the_completer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shell = Shell(notebook=True)
    assert shell.complete("%memreplay fragm") == ["fragmentation"]
    assert "--depth" in shell.complete("%memreplay peak --dep")
    assert "--max-entries" in shell.complete("%%memreplay --max")
    assert shell.complete("%memreplay peak exampl") == ["examples/"]
    assert "staticmethod" in shell.complete("staticm")
