"""`memreplay plan -- COMMAND` plans for a program that runs with a real torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

PROGRAM = ROOT / "examples" / "train_gpt.py"
ARGUMENTS = ("--batch", "8", "--steps", "2")


def planned(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Plan for a GPT; return the exit code, its only device, and the notes on stderr."""
    command = [sys.executable, "-m", "memreplay", "plan", *options, "--json", "--"]
    done = subprocess.run(
        [*command, PYTHON, str(PROGRAM), *ARGUMENTS],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout, done.stderr
    (device,) = json.loads(done.stdout)["devices"]
    return done.returncode, device, done.stderr


@pytest.mark.parametrize("share", [0.85, 0.75])
def test_verified_plans_fit_with_the_predicted_peak(tmp_path: Path, share: float) -> None:
    code, device, _ = planned(tmp_path, "--fit", "64GiB")
    assert (code, device["fits"]) == (0, True)
    assert device["verified"]["requested_peak_bytes"] == device["requested_peak_bytes"]
    assert device["verified"]["error_share"] == 0
    fit = int(share * device["reserved_peak_bytes"]) + device["context_bytes"]
    code, device, notes = planned(tmp_path, "--fit", f"{fit}B")
    assert code == 0
    verified = [one for one in device["plans"] if one["verified"]]
    assert verified
    for one in verified:
        assert one["exactness"] == "verified"
        assert one["verified"]["error_share"] == 0
        assert one["verified"]["reserved_peak_bytes"] <= device["program_memory_bytes"]
        assert one["spare_bytes"] == one["verified"]["spare_bytes"] >= 0
    assert "memreplay: dry run 2 on " in notes
    assert os.listdir(tmp_path) == ["dryrun.pickle"]


def test_card_that_is_too_small_has_no_verified_plan(tmp_path: Path) -> None:
    _, device, _ = planned(tmp_path, "--fit", "500MiB")
    assert not any(one["verified"] for one in device["plans"])
