"""Dry runs with a real torch, which ci/truth installs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PYTHON = os.environ.get("MEMREPLAY_TRUTH_PYTHON", "")
LONGEST = 1800  # seconds; only a program that hangs takes as long, even on a slow machine

marks = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="no torch: MEMREPLAY_TRUTH_PYTHON names none"),
]


def dryrun(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memreplay", "dryrun", "-o", str(folder / "out.pickle")]
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
        env=os.environ | {"COLUMNS": "100"} | environment,
    )


def reported(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = dryrun(folder, "--json", "--force", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def of_memreplay(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return memreplay's own lines on stderr. PyTorch warns of old processors, for example."""
    return [line for line in done.stderr.splitlines() if "memreplay" in line]
