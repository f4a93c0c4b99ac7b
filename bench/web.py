"""Time memreplay in Chromium: its start, and from choosing a file until the page shows its picture.

    ci/web && .venv-viewer/bin/python bench/web.py bench/data/4mb.pkl bench/data/100mb.pkl

Each round opens build/web/memreplay.html from the disk in a new browser. Heap is the memory of
memreplay's Python; the file itself isn't in it. The results are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.web.app import PICTURE, shown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "build" / "web" / "memreplay.html"
SIZE = {"width": 1280, "height": 800}
PATIENCE_MS = 300_000


def timed(path: str, file: Path) -> tuple[float, float, int]:
    """Return the seconds of the start, the seconds until the picture, and the heap's bytes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_context(viewport=SIZE).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(PAGE.as_uri())
        page.wait_for_selector("body[data-started]")
        start = int(page.get_attribute("body", "data-started") or 0) / 1000
        page.wait_for_timeout(500)
        began = time.monotonic()
        page.set_input_files("#choose", str(file))
        shown(page).evaluate(PICTURE)
        picture = time.monotonic() - began
        page.wait_for_selector("body[data-state=ready]")
        heap = int(page.get_attribute("body", "data-heap") or 0)
        browser.close()
    return start, picture, heap


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description="Times memreplay in Chromium.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    path = os.environ.get("MEMREPLAY_CHROMIUM", "/usr/bin/chromium")
    print(f"{PAGE.stat().st_size:,} bytes\nfile                start    picture    heap")
    for file in asked.files:
        rounds = [timed(path, file) for _ in range(asked.rounds)]
        start, picture, heap = (statistics.median(one) for one in zip(*rounds, strict=True))
        name = f"{file.stat().st_size / 1e6:.1f} MB"
        print(f"{name:18}{start:5.1f} s  {picture:7.2f} s  {heap / 2**20:4.0f} MiB")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
