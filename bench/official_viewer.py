"""Build PyTorch's own viewer, `torch/utils/viz/MemoryViz.js`, as a page that needs no network.

No package contains that file. It's taken once from Debian's PyTorch sources with `apt-get source`,
unless MEMREPLAY_MEMORYVIZ names a copy. The parts of d3 that it imports from a CDN come from npm,
bundled with viewer/'s esbuild.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VERSION = "2.6.0"
SUITE = "trixie"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MEMBER = "torch/utils/viz/MemoryViz.js"
# Returns the modules that the script imports from the CDN.
D3 = {
    "d3@5": "5.16.0",
    "d3-axis@1": "1.0.12",
    "d3-scale@1": "1.0.7",
    "d3-zoom@1": "1.8.3",
    "d3-brush@1": "1.1.6",
}
ORIGIN = "https://viewer.invalid/"
CDN = "https://cdn.skypack.dev/"
PAGE = """<!doctype html><html><head></head><body>
<input type="file" id="chosen" hidden>
<script type="module">
import { add_local_files } from './MemoryViz.js';
add_local_files([], 'Active Memory Timeline');
globalThis.loaded = true;
</script></body></html>"""
# Drops a file, and returns when a frame shows the polygons.
DROP = """async () => {
  const given = new DataTransfer();
  given.items.add(document.querySelector('#chosen').files[0]);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: given, bubbles: true }));
  while (!document.querySelector('svg polygon')) await frame();
  await frame();
  await frame();
  return (performance.now() - began) / 1000;
}"""
SHOW_ALL = """async () => {
  const slider = document.querySelector('input[type=range]');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  slider.value = slider.max;
  slider.dispatchEvent(new Event('change'));
  await frame();
  await frame();
  return (performance.now() - began) / 1000;
}"""


class Official:
    """The page, from a folder with all its scripts."""

    MOST = 15_000
    """The number of allocations shown at first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, page: Any) -> None:
        """Open the page without a file."""
        page.route("**/*", self._answer)
        page.goto(ORIGIN)
        page.wait_for_function("() => globalThis.loaded")

    def _answer(self, route: Any) -> None:
        url = route.request.url
        if url == ORIGIN:
            route.fulfill(body=PAGE, content_type="text/html")
            return
        name = url.removeprefix(CDN).removeprefix(ORIGIN)
        path = self._folder / (f"{name}.js" if url.startswith(CDN) else name)
        if not path.exists():
            route.abort()
            return
        route.fulfill(
            path=path,
            content_type="text/javascript",
            headers={"Access-Control-Allow-Origin": "*"},
        )

    def drop(self, page: Any, snapshot: Path) -> float:
        """Return the seconds from dropping a file to its picture."""
        page.set_input_files("#chosen", snapshot)
        return float(page.evaluate(DROP))

    def allocations(self, page: Any) -> int:
        """Return the number of allocations."""
        return int(page.evaluate("() => Number(document.querySelector('input[type=range]').max)"))

    def show_all(self, page: Any) -> float:
        """Return the seconds until all allocations are shown."""
        return float(page.evaluate(SHOW_ALL))


def official(data: Path) -> Official | None:
    """Build the viewer in a folder the first time; print a note and return None if its parts are
    missing.
    """
    folder = data / f"memoryviz-{VERSION}"
    try:
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _script(folder / "MemoryViz.js")
            _modules(folder)
            (folder / "complete").touch()
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        print(f"PyTorch's viewer is not to be had here: {error}", file=sys.stderr)
        return None
    return Official(folder)


def _script(target: Path) -> None:
    if given := os.environ.get("MEMREPLAY_MEMORYVIZ"):
        shutil.copy(given, target)
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "sources.list").write_text(
            f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian {SUITE} main\n"
        )
        for name in ("lists/partial", "cache/archives/partial"):
            (work / name).mkdir(parents=True)
        options = {
            "Dir::Etc::SourceList": work / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": work / "lists",
            "Dir::Cache": work / "cache",
        }
        apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
        subprocess.run([*apt, "update"], check=True, cwd=work)
        subprocess.run([*apt, "source", "--download-only", "pytorch"], check=True, cwd=work)
        (archive,) = work.glob(f"pytorch_{VERSION}*.orig.tar.*")
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name.endswith(MEMBER):
                    content = tar.extractfile(member)
                    assert content
                    target.write_bytes(content.read())
                    return
    raise FileNotFoundError(f"{archive.name} has no {MEMBER}")


def _modules(folder: Path) -> None:
    """Write a module for each module that the script imports from the CDN."""
    viewer = Path(__file__).resolve().parents[1] / "viewer"
    packages = [f"{name.partition('@')[0]}@{version}" for name, version in D3.items()]
    # d3 also depends on the other modules, in the same versions.
    subprocess.run(
        ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *packages],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for name in D3:
        subprocess.run(
            [
                str(viewer / "node_modules/.bin/esbuild"),
                "--bundle",
                "--format=esm",
                "--log-level=error",
                f"--outfile={folder / name}.js",
                str(folder / "node_modules" / name.partition("@")[0]),
            ],
            check=True,
        )
