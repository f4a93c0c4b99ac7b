"""Make the page in build/web: the site (index.html, assets/, and memreplay-site.zip with both), and
memreplay.html, a single file.

Needs node, npm's packages (npm ci), and ziglang; ci/web installs them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import wasm_wheel
from wasm_compiler import ROOT
from zip_site import zip_site

WEB = ROOT / "web"
BUILD = ROOT / "build" / "web"
PACKAGES = BUILD / "packages"
SITE = BUILD / "site"
PARTS = BUILD / "parts"
PYTHON = "3.14"  # Pyodide's


def main() -> None:
    """Build the wheel, collect the packages, pack them, and bundle the page."""
    wheels = [wasm_wheel.build(), *packages()]
    shutil.rmtree(SITE, ignore_errors=True)
    for one in wheels:
        with ZipFile(one) as archive:
            archive.extractall(SITE)
    shutil.copy(WEB / "session.py", SITE)
    for script, folders in (("pack.mjs", (SITE, PARTS)), ("build.mjs", (PARTS, BUILD))):
        subprocess.run(["node", script, *map(str, folders)], cwd=WEB, check=True)
    zip_site(BUILD)


def packages() -> list[Path]:
    """Return the wheels of the packages in packages.txt; download them if these have changed."""
    wanted = (WEB / "packages.txt").read_text()
    installed = PACKAGES / "installed.txt"
    if not installed.exists() or installed.read_text() != wanted:
        shutil.rmtree(PACKAGES, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [
            "--only-binary=:all:",
            "--platform",
            wasm_wheel.PLATFORM,
            "--implementation",
            "cp",
        ]
        command += ["--python-version", PYTHON, "--abi", f"cp{PYTHON.replace('.', '')}"]
        command += ["--dest", str(PACKAGES), "--requirement", str(WEB / "packages.txt")]
        subprocess.run(command, check=True)
        installed.write_text(wanted)
    return sorted(PACKAGES.glob("*.whl"))


if __name__ == "__main__":
    main()
