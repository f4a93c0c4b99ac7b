"""The finder of compiled modules, which are all in one library."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import memreplay
from memreplay import engine
from tests.conftest import ROOT

PACKAGE = Path(memreplay.__file__).parent
SOURCES = ROOT / "src"  # a wheel has no sources
COMPILED = sorted(
    ".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in SOURCES.rglob("*.pyx")
)


def test_every_module_is_in_the_library() -> None:
    assert len(COMPILED) > 50
    files = {importlib.import_module(name).__file__ for name in COMPILED}
    assert len(files) == 1
    (file,) = files
    assert file is not None
    assert Path(file).name.startswith("_core.")


def test_last_names_of_modules_are_unique() -> None:
    """Only the last name is part of the name of a module's init function."""
    last = [name.rpartition(".")[2] for name in COMPILED]
    assert len(last) == len(set(last))


def test_uncompiled_modules_are_found_by_python() -> None:
    for path in (PACKAGE / "engine").rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        assert engine.Finder.find_spec(name.removesuffix(".__init__")) is None, name


@pytest.mark.parametrize(
    "name", ["memreplay.engine.read", "memreplay.io.limits", "json", "a.b.c.d"]
)
def test_other_names_are_left_to_python(name: str) -> None:
    assert engine.Finder.find_spec(name) is None


def test_missing_module_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="nowhere"):
        importlib.import_module("memreplay.engine.read.nowhere")


def test_unbuilt_library_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.Finder, "library", "")
    monkeypatch.setattr("memreplay.engine.PathFinder.find_spec", lambda *_: None)
    with pytest.raises(ImportError, match="memreplay is not built: run `make`"):
        engine.Finder.find_spec("memreplay.engine.read.vm")


@pytest.mark.parametrize("name", ["memreplay._core", "memreplay.engine.query.turns"])
def test_any_module_may_be_imported_first(name: str) -> None:
    """A module with a `cimport` imports others while it's being imported itself."""
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
