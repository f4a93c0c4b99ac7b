"""Build the wheel for Pyodide, in build/web/dist: the engine compiled to WebAssembly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from wasm_compiler import ROOT, make_headers

# The binary interface of the Pyodide in package.json.
PLATFORM = "pyemscripten_2026_0_wasm32"
COMPILER = Path(__file__).with_name("wasm_compiler.py")
BUILD = ROOT / "build" / "web" / "wheel"
DIST = ROOT / "build" / "web" / "dist"


def build() -> Path:
    """Build it with setup.py and `wasm_compiler.py`, and return its path. Objects are kept between
    builds.
    """
    if sys.hexversion < 0x030B0000:  # older ones have no stable ABI that the engine can use
        sys.exit("building for the browser needs Python 3.11 or newer")
    make_headers()
    compiler = f"{sys.executable} {COMPILER}"
    env = {
        **os.environ,
        "PYODIDE": "1",
        "CC": compiler,
        "LDSHARED": f"{compiler} link",
        "PYTHONWARNINGS": "ignore",  # setuptools' own: it warns of what it does itself
    }
    shutil.rmtree(BUILD / "lib", ignore_errors=True)  # no files that were deleted since
    shutil.rmtree(DIST, ignore_errors=True)
    command = [sys.executable, "setup.py", "--quiet"]
    command += ["build", "--build-base", str(BUILD), "--build-lib", str(BUILD / "lib")]
    command += ["--build-temp", str(BUILD / "temp")]
    command += ["bdist_wheel", "--plat-name", PLATFORM, "--dist-dir", str(DIST)]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    (wheel,) = DIST.glob("*.whl")
    return wheel


if __name__ == "__main__":
    sys.stdout.write(f"{build().relative_to(ROOT)}\n")
