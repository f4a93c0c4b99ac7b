"""Tests of __main__.py."""

from __future__ import annotations

import subprocess
import sys


def test_python_m_memreplay_speaks_of_memreplay() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "peak"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: memreplay peak [OPTIONS] FILE\n")
