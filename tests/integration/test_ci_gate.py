"""ci/gate, which this project runs in CI, passes with the committed baseline and fails with a lower
one.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = folder / "memreplay"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m memreplay "$@"\n')
    command.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        [str(ROOT / "ci" / "gate")],
        env=own | {"MEMREPLAY": str(command)} | environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def test_gate_passes_with_the_committed_baseline(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASS peak held grew by 0 B (0.0%), within the limit of 0%")


def test_gate_fails_with_a_lower_baseline(tmp_path: Path) -> None:
    baseline = json.loads((ROOT / "ci" / "gate-base.json").read_text(encoding="utf-8"))
    peak = next(
        one
        for one in baseline["devices"][0]["peaks"]
        if (one["measure"], one["category"], one["annotation"]) == ("held", None, None)
    )
    group = next(one for one in peak["groups"] if one["frames"])
    for one in (peak, group):
        one["bytes"] -= 1 << 20
    lowered = tmp_path / "lowered.json"
    lowered.write_text(json.dumps(baseline), encoding="utf-8")
    done = run(tmp_path, GATE_BASE=str(lowered))
    assert done.returncode == 1
    assert done.stdout.startswith(
        "FAIL peak held grew by 1.0 MiB (<0.1%), more than the limit of 0%"
    )
    assert "+1.0 MiB in forward model.py:" in done.stdout.splitlines()[0]


def test_committed_baseline_matches_the_command() -> None:
    """If the baseline's format or contents change, the committed file must be updated."""
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "memreplay",
            "gate",
            "examples/transformer_step.pkl.gz",
            "--config",
            "ci/gate.toml",
            "--strict",
            "--save-base",
            "-",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    assert made.stdout == (ROOT / "ci" / "gate-base.json").read_bytes()
