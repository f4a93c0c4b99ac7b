"""Draw the pictures in README and docs/ that show pages, from the examples, in Chromium.

    .venv-viewer/bin/python viewer/screenshots.py docs/images

The page that runs memreplay in a browser is drawn if `make web` has built it, and PyTorch's viewer
if it can be downloaded.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

import memreplay
from memreplay.commands.fleet.page import write_fleet_page

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from official_viewer import Official, official
from tests.web.app import PICTURE, shown

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = "examples/transformer_step.pkl.gz"
OTHER = "examples/transformer_deeper.pkl.gz"
OOM = "examples/serving_oom.pkl.gz"
APP = ROOT / "build" / "web" / "memreplay.html"

COLOURS = 256
SCALE = 2  # pixels of the picture for each of the page
TOP = 20  # rows of each rank on the fleet page


class Shot(NamedTuple):
    """A picture: its files, the part of their page to show, and how."""

    name: str
    files: tuple[str, ...]
    fragment: str
    scheme: str = "light"
    width: int = 1280
    height: int = 800
    top: str = "body"
    """The element at the top of the picture."""


SHOTS = (
    Shot("view", (EXAMPLE,), ""),
    Shot("view-oom", (OOM,), "", height=860),
    Shot(
        "view-dark",
        (EXAMPLE,),
        "colour=module&by=category&tab=allocator",
        scheme="dark",
        top=".picture",
        height=860,
    ),
    Shot("view-flame", (EXAMPLE,), "tab=flame", top=".tabs", height=300),
    Shot("view-diff", (EXAMPLE, OTHER), "tab=diff", height=1000),
    Shot("fleet", ("examples/fsdp_odd_ranks",), "rank=5&moment=3", height=760),
)


def main(folder: Path) -> None:
    """Draw one picture per shot."""
    from playwright.sync_api import sync_playwright

    target = folder.absolute()
    os.chdir(ROOT)  # the page shows a file's name as it was given
    path = os.environ.get("MEMREPLAY_CHROMIUM", "/usr/bin/chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for shot in SHOTS:
            page = Path(scratch, f"{shot.name}.html")
            if os.path.isdir(shot.files[0]):
                write_fleet_page(memreplay.fleet(shot.files[0], workers=1), str(page), TOP)
            else:
                memreplay.view(*map(memreplay.open, shot.files)).save(str(page))
            draw(browser, page, shot, target / f"{shot.name}.webp")
        if APP.exists():
            draw_app(browser, target / "browser.webp")
        if theirs := official(Path(scratch)):
            draw_theirs(browser, theirs, target / "memory-viz.webp")
        browser.close()


def draw(browser: Any, page: Path, shot: Shot, target: Path) -> None:
    """Draw one picture."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
        device_scale_factor=SCALE,
    )
    tab = context.new_page()
    tab.goto(f"{page.as_uri()}#{shot.fragment}")
    tab.evaluate("() => memreplay.ready")
    tab.evaluate("(top) => document.querySelector(top).scrollIntoView()", shot.top)
    tab.evaluate("() => memreplay.set({})")
    save(tab, target)
    context.close()


def draw_app(browser: Any, target: Path) -> None:
    """Draw the page that runs memreplay, with an example open."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="light", device_scale_factor=SCALE
    )
    tab = context.new_page()
    tab.goto(APP.as_uri())
    tab.set_input_files("#choose", EXAMPLE)
    shown(tab).evaluate(PICTURE)
    tab.wait_for_selector("body[data-state=ready]")
    save(tab, target)
    context.close()


def draw_theirs(browser: Any, theirs: Official, target: Path) -> None:
    """Draw PyTorch's viewer with an example."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 540}, device_scale_factor=SCALE
    )
    tab = context.new_page()
    theirs.open(tab)
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = Path(scratch, Path(EXAMPLE).stem)
        unpacked.write_bytes(gzip.decompress(Path(EXAMPLE).read_bytes()))
        theirs.drop(tab, unpacked)
        theirs.show_all(tab)
    save(tab, target)
    context.close()


def save(tab: Any, target: Path) -> None:
    """Save a picture of a tab."""
    drawn = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    # Smoothed text has more colours than anyone sees.
    few = drawn.quantize(COLOURS, dither=Image.Dither.NONE).convert("RGB")
    few.save(target, lossless=True, quality=100, method=6)
    print(f"{target.name}: {target.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
