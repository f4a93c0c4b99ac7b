"""The finder of compiled modules: all of them in one library."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import memreplay
from memreplay import engine
from tests.conftest import ROOT

PACKAGE = Path(memreplay.__file__).parent
SOURCES = ROOT / "src"  # a wheel has none
COMPILED = sorted(
    ".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in SOURCES.rglob("*.pyx")
)


def test_each_module_is_in_the_library() -> None:
    assert len(COMPILED) > 50
    files = {importlib.import_module(name).__file__ for name in COMPILED}
    assert len(files) == 1
    (file,) = files
    assert file is not None
    assert Path(file).name.startswith("_core.")


def test_no_two_modules_have_the_same_last_name() -> None:
    """The function that makes a module is called by that alone."""
    last = [name.rpartition(".")[2] for name in COMPILED]
    assert len(last) == len(set(last))


def test_what_is_not_compiled_is_found_by_python() -> None:
    for path in (PACKAGE / "engine").rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        assert engine.Finder.find_spec(name.removesuffix(".__init__")) is None, name


@pytest.mark.parametrize(
    "name", ["memreplay.engine.read", "memreplay.io.limits", "json", "a.b.c.d"]
)
def test_other_names_are_left_alone(name: str) -> None:
    assert engine.Finder.find_spec(name) is None


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ImportError, match="nowhere"):
        importlib.import_module("memreplay.engine.read.nowhere")


def test_nothing_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.Finder, "library", "")
    monkeypatch.setattr("memreplay.engine.PathFinder.find_spec", lambda *_: None)
    with pytest.raises(ImportError, match="memreplay is not built: run `make`"):
        engine.Finder.find_spec("memreplay.engine.read.vm")


@pytest.mark.parametrize("name", ["memreplay._core", "memreplay.engine.query.turns"])
def test_any_module_may_be_the_first(name: str) -> None:
    """As `cimport` needs others in the middle of the import of one."""
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
