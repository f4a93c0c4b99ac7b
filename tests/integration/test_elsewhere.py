"""All modules and commands work without Linux features (see tests/elsewhere.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_everything_works_without_linux_features(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.elsewhere", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
