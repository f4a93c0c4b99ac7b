"""Tests of notebook/extension.py: the magics as IPython runs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memreplay
from tests.conftest import ROOT
from tests.unit.notebook.shells import Shell

STEP = str(ROOT / "examples" / "transformer_step.pkl.gz")


@pytest.fixture
def notebook() -> Shell:
    return Shell(notebook=True)


def test_line_magic_prints_once_and_returns_a_value(notebook: Shell) -> None:
    cell = notebook(f"path = {STEP!r}\nx = %memreplay peak {{path}} --top 1\n%memreplay --version")
    assert cell.error is None
    assert cell.out.count("peak 5.2 GiB") == 1
    assert cell.out.count(f"memreplay {memreplay.__version__}") == 1
    assert notebook("x.exit_code").out.endswith(": 0\n")
    assert "peak 5.2 GiB" in notebook("x").out
    assert notebook("%memreplay peak $path --top 1").out.count("peak 5.2 GiB") == 1


def test_page_is_displayed_in_the_cell(notebook: Shell) -> None:
    (page,) = notebook(f"%memreplay view {STEP}").shown
    assert page.data["text/html"].startswith("<iframe")


def test_terminal_gets_text() -> None:
    cell = Shell(notebook=False)("%memreplay --version")
    said = f"memreplay {memreplay.__version__}"
    assert cell.out.splitlines() == [said, "Out[1]: <memreplay --version: exit code 0>"]


@pytest.mark.parametrize(
    "code, said",
    [
        ("%memreplay peak 'x", "UsageError: no closing quotation"),
        ("%%memreplay --stacks none\n1", "UsageError: Invalid value for '--stacks'"),
        ("%%memreplay\n1", "torch is not installed"),
    ],
)
def test_mistakes_take_one_line(
    code: str, said: str, notebook: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    cell = notebook(code)
    assert cell.error is not None
    assert said in cell.err
    assert len(cell.err.splitlines()) == 1
    assert "Out[" not in cell.out


def test_help_of_the_cell_magic_does_not_run_the_cell(notebook: Shell) -> None:
    cell = notebook("%%memreplay --help\nmade = 1")
    assert "Usage: %%memreplay" in cell.out
    assert "made" not in notebook.ipython.user_ns


def test_extension_can_be_unloaded(notebook: Shell) -> None:
    notebook.ipython.run_line_magic("reload_ext", "memreplay")
    assert notebook("%memreplay --version").error is None
    notebook.ipython.run_line_magic("unload_ext", "memreplay")
    assert "not found" in notebook("%memreplay --version").err


def test_importing_the_package_does_not_load_the_extension() -> None:
    code = (
        "import sys, memreplay; memreplay.load_ipython_extension\n"
        "print([one for one in sys.modules if 'IPython' in one or 'notebook' in one])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
