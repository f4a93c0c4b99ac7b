"""The wheel for Pyodide installs with micropip, as in JupyterLite, and gives the native numbers."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.web.conftest import BUILT

pytestmark = pytest.mark.browser

CODE = """
import memreplay as mr
snap = mr.open("transformer_step.pkl.gz")
for found in (mr.peak(snap, by="line"), mr.oom(snap), mr.simulate(snap, search=("card",))):
    print(mr.to_json(found))
"""


def test_installed_wheel_gives_the_native_numbers() -> None:
    if not (BUILT / "micropip").exists() or not shutil.which("node"):
        pytest.skip("the wheel isn't built: ci/web builds it")
    examples = str(ROOT / "examples")

    def ran(command: list[str], folder: str) -> str:
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    inside = ran(["node", "install.mjs", examples, CODE], str(ROOT / "web"))
    native = ran([sys.executable, "-c", CODE], examples)
    assert native.count("\n") > 2
    assert inside == native
