"""tests/no_skips.py turns skipped tests into failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SKIPS = {
    "by hand": "def test_it():\n    pytest.skip('a reason')\n",
    "by a mark": "@pytest.mark.skipif(True, reason='a reason')\ndef test_it():\n    pass\n",
    "as a file": "pytest.importorskip('none.such', reason='a reason')\ndef test_it():\n    pass\n",
}


def run(path: Path, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    path.write_text(f"import pytest\n\n\n{text}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS)
def test_skipped_test_fails(tmp_path: Path, text: str) -> None:
    done = run(tmp_path / "test_skips.py", text, "-p", "tests.no_skips")
    assert done.returncode not in (0, 5)
    assert "a reason" in done.stdout


def test_other_tests_pass(tmp_path: Path) -> None:
    text = "@pytest.mark.xfail\ndef test_a():\n    assert False\ndef test_b():\n    pass\n"
    done = run(tmp_path / "test_passes.py", text, "-p", "tests.no_skips")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 xfailed" in done.stdout
