"""Tests of commands/shared/rendering.py: text or JSON of what a command found."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

from memreplay.commands.peak.text import headlines, peak_document
from memreplay.commands.shared.rendering import rendering
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests.unit.commands.results import PEAK

PEAK_TEXT = partial(rendering, document="peak.text:peak_document")


def test_json() -> None:
    assert PEAK_TEXT("json")(PEAK) == render_json(PEAK)
    assert PEAK_TEXT("json", indent=None)(PEAK) == render_json(PEAK, indent=None)


def test_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert PEAK_TEXT("text")(PEAK) == render_plain(peak_document(PEAK), width=90)


def test_what_is_repeated_below_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr("memreplay.commands.shared.output._is_too_long", lambda *_: True)
    shown = PEAK_TEXT("text", last="peak.text:headlines")(PEAK)
    assert shown == render_plain((*peak_document(PEAK), *headlines(PEAK)), width=90)


def test_json_imports_no_text() -> None:
    code = (
        "import sys; from memreplay.commands.shared.rendering import rendering;"
        "rendering('json', 'peak.text:peak_document')(());"
        "sys.exit('memreplay.commands.peak.text' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
