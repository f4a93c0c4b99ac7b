"""Tests of ci/map.py: each file of the package says its job, and what the engine uses is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci import map as maker
from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "memreplay"


def test_each_file_says_its_job() -> None:
    silent = [
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd") and path.read_text(encoding="utf-8")
        if not maker.job(path)
    ]
    assert not silent


def test_the_map_of_a_folder() -> None:
    found = list(maker.lines(PACKAGE / "engine" / "read"))
    assert found[0] == "\nmemreplay/engine/read/"
    at = next(i for i, line in enumerate(found) if line.startswith("  vm "))
    assert "pickle" in found[at].lower()
    uses = found[at + 1].split("uses ")[1].split(", ")
    assert {"base.cursor", "read.fast", "read.tables"} < set(uses)
    assert "read" not in uses


def test_a_declaration_says_what_a_module_is(tmp_path: Path) -> None:
    (tmp_path / "a.pyx").write_text("# The body.\n")
    (tmp_path / "a.pxd").write_text("# The form.\nfrom memreplay.engine.base.b cimport c\n")
    assert maker.job(tmp_path / "a.pxd") == "The form."
    assert maker.used([tmp_path / "a.pyx", tmp_path / "a.pxd"]) == ["base.b"]


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(["nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
