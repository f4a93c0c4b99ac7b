"""Tests of ci/map.py, which lists each file's job and what it uses from the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci import map as maker
from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "memreplay"


def test_every_file_says_what_it_does() -> None:
    silent = [
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd") and path.read_text(encoding="utf-8")
        if not maker.job(path)
    ]
    assert not silent


def test_map_lists_each_files_job_and_cimports() -> None:
    found = list(maker.lines(PACKAGE / "engine" / "read"))
    assert found[0] == "\nmemreplay/engine/read/"
    at = next(i for i, line in enumerate(found) if line.startswith("  vm "))
    assert "pickle" in found[at].lower()
    uses = found[at + 1].split("uses ")[1].split(", ")
    assert {"base.cursor", "read.fast", "read.tables"} < set(uses)
    assert "read" not in uses


def test_declaration_file_describes_a_module(tmp_path: Path) -> None:
    (tmp_path / "a.pyx").write_text("# The body.\n")
    (tmp_path / "a.pxd").write_text("# The form.\nfrom memreplay.engine.base.b cimport c\n")
    assert maker.job(tmp_path / "a.pxd") == "The form."
    assert maker.used([tmp_path / "a.pyx", tmp_path / "a.pxd"]) == ["base.b"]


def test_missing_folder_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(["nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
