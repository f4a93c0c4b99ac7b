"""In Pyodide, the engine passes its own tests, the conformance tests and the property tests."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.conftest import ROOT
from tests.web.conftest import BUILT

pytestmark = pytest.mark.browser

FOLDERS = ("tests/conformance", "tests/property", "tests/unit/engine")
OUTCOMES = """
import os, subprocess, threading
import pytest

def test_passes():
    pass

def test_fails():
    raise AssertionError

def test_lacks_a_module_of_ours():
    import memreplay.nothing

def test_fails_without_a_package():
    try:
        import numpy
    except ImportError:
        raise ValueError

def test_needs_a_package():
    import numpy

def test_needs_a_process():
    subprocess.run(["true"])

def test_needs_a_thread():
    threading.Thread(target=print).start()
"""


@pytest.fixture(scope="module")
def node() -> str:
    """Return the path of node; skip the test without the wheel that ci/web has just built."""
    found = os.environ.get("MEMREPLAY_NODE")
    if not found:
        pytest.skip("no node: ci/web finds it, and builds the wheel")
    return found


def in_pyodide(node: str, *arguments: str) -> tuple[int, str]:
    """Run pytest in Pyodide; return its exit code and output."""
    done = subprocess.run(
        [node, "inside.mjs", *arguments],
        check=False,
        cwd=ROOT / "web",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_engine_passes(node: str) -> None:
    code, said = in_pyodide(node, "-q", "-r", "fE", "--tb=short", *FOLDERS)
    (BUILT / "inside.log").write_text(said)
    assert code == 0, said[-4000:]
    found = re.search(r"(\d+) passed, (\d+) skipped", said)
    assert found
    assert int(found[1]) > int(found[2])


def test_only_what_needs_absent_things_is_left_out(node: str) -> None:
    folder = BUILT / "inside" / "outcomes"
    folder.mkdir(exist_ok=True)
    (folder / "test_outcomes.py").write_text(OUTCOMES)
    (folder / "test_broken.py").write_text("import memreplay.nothing\n")
    (folder / "test_absent.py").write_text("import numpy\n")
    options = ("--continue-on-collection-errors", "-q", "-r", "fE", "--tb=no")
    code, said = in_pyodide(node, *options, f"build/web/inside/{folder.name}")
    assert code == 1
    assert "3 failed, 1 passed, 4 skipped, 1 error" in said
    names = re.findall(r"^(?:FAILED|ERROR) \S+?/(test_\w+.py(?:::\w+)?)", said, re.MULTILINE)
    failed = ("fails", "lacks_a_module_of_ours", "fails_without_a_package")
    wanted = [f"test_outcomes.py::test_{name}" for name in failed]
    assert sorted(names) == sorted(["test_broken.py", *wanted])
    assert re.findall(r"^left out: (.*)", said, re.MULTILINE) == [
        "1 files that need numpy",
        "1 tests that need numpy",
        "1 tests that need processes",
        "1 tests that need threads",
    ]
