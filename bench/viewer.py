"""Time the page of `memreplay view` in Chromium, and PyTorch's own viewer on the same files.

    ci/viewer-tools && .venv-viewer/bin/python bench/viewer.py --sizes 4,25,100
    .venv-viewer/bin/python bench/viewer.py --ours --sizes 500 --json results.json

Seconds are wall time, from the start of the page load, or from dropping the file on PyTorch's page,
until a frame shows the picture. CPU seconds are those of the page's browser processes. Bytes are
their memory beyond an empty page's. Each tool gets a new browser for each file; the results are
medians over --rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from browser_process import Processes
from official_viewer import Official, official

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
SIZE = {"width": 1280, "height": 800}
ZOOMS = (1.0, 0.1, 0.01, 0.001)
DRAG_SECONDS = 3.0
# Timeout for the slowest page: PyTorch's, with all allocations.
PATIENCE_MS = 900_000

# Requests pictures of other parts, one after another, and returns the milliseconds for each.
REDRAWS = """async ([zoom, times]) => {
  const { engine, picture } = memreplay;
  const { query } = picture();
  const { from, to } = query.span;
  const length = (to - from) * zoom;
  const found = [];
  for (let i = 0; i < times; i++) {
    const start = from + (to - from - length) * (i / Math.max(times - 1, 1));
    const began = performance.now();
    await engine.picture({ ...query, span: { from: start, to: start + length } });
    found.push(performance.now() - began);
  }
  return found;
}"""
FRAMES = """() => {
  const seen = { frames: 0, pictures: 0, longest: 0, last: performance.now(), shown: null };
  globalThis.seen = seen;
  const frame = () => {
    const now = performance.now();
    seen.longest = Math.max(seen.longest, now - seen.last);
    seen.last = now;
    seen.frames++;
    const shown = globalThis.memreplay?.picture() ?? null;
    if (shown !== seen.shown) seen.pictures++;
    seen.shown = shown;
    if (globalThis.seen === seen) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
SEEN = "() => { const { seen } = globalThis; delete globalThis.seen; return seen; }"


@dataclass
class Timed:
    """One tool's results for one file; None if not measured."""

    tool: str
    file: str
    file_bytes: int
    allocations: int | None = None
    page_bytes: int | None = None
    first_s: list[float] = field(default_factory=list)
    first_cpu_s: list[float] = field(default_factory=list)
    all_s: list[float] = field(default_factory=list)
    all_cpu_s: list[float] = field(default_factory=list)
    held_bytes: list[int] = field(default_factory=list)
    frames_per_s: list[float] = field(default_factory=list)
    pictures_per_s: list[float] = field(default_factory=list)
    longest_frame_ms: list[float] = field(default_factory=list)
    redraw_ms: dict[str, list[float]] = field(default_factory=dict)


@contextmanager
def browser(path: str) -> Iterator[tuple[Any, Processes]]:
    """Open a page in a new browser, and note its processes' initial state."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = made.new_context(viewport=SIZE).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto("about:blank")
        page.wait_for_timeout(300)
        yield page, Processes.of(os.getpid())
        made.close()


def time_ours(path: str, page_file: Path, found: Timed) -> None:
    """Time memreplay's page, which shows everything in the first picture."""
    with browser(path) as (page, processes):
        before = processes.cpu_seconds()
        page.goto(page_file.as_uri(), wait_until="commit")
        page.wait_for_function("() => globalThis.memreplay?.picture()", polling=10)
        found.first_s.append(page.evaluate("() => performance.now()") / 1000)
        found.first_cpu_s.append(processes.cpu_seconds() - before)
        page.evaluate("() => memreplay.ready")
        found.all_s.append(page.evaluate("() => performance.now()") / 1000)
        found.all_cpu_s.append(processes.cpu_seconds() - before)
        for zoom in ZOOMS:
            times = page.evaluate(REDRAWS, [zoom, 7])
            found.redraw_ms.setdefault(f"{zoom:g}", []).append(statistics.median(times))
        found.held_bytes.append(processes.held_bytes())
        # Zoom to a tenth of the range, so that there's room to pan.
        page.evaluate(
            """() => { const { from, to } = memreplay.picture().query.span;
              const part = (to - from) / 10;
              return memreplay.set({ from: from + 4 * part, to: from + 5 * part }); }"""
        )
        drag(page, "[data-what=picture]", found)


def time_official(path: str, tool: Official, snapshot: Path, found: Timed, *, whole: bool) -> None:
    """Time PyTorch's page, first with the largest 15,000 allocations, then with all."""
    with browser(path) as (page, processes):
        tool.open(page)
        before = processes.cpu_seconds()
        found.first_s.append(tool.drop(page, snapshot))
        found.first_cpu_s.append(processes.cpu_seconds() - before)
        found.allocations = tool.allocations(page)
        drag(page, "svg", found)
        if whole:
            before = processes.cpu_seconds()
            more = tool.show_all(page) if found.allocations > tool.MOST else 0.0
            found.all_s.append(found.first_s[-1] + more)
            found.all_cpu_s.append(found.first_cpu_s[-1] + processes.cpu_seconds() - before)
        found.held_bytes.append(processes.held_bytes())


def drag(page: Any, selector: str, found: Timed) -> None:
    """Drag the picture back and forth, and count frames."""
    box = page.locator(selector).first.bounding_box()
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    began = page.evaluate("() => performance.now()")
    step = 0
    while (now := page.evaluate("() => performance.now()")) - began < 1000 * DRAG_SECONDS:
        step += 1
        page.mouse.move(middle + 200 * (1 - abs(step % 80 - 40) / 20), y)
    seen = page.evaluate(SEEN)
    page.mouse.up()
    seconds = (now - began) / 1000
    found.frames_per_s.append(seen["frames"] / seconds)
    found.pictures_per_s.append(seen["pictures"] / seconds)
    found.longest_frame_ms.append(seen["longest"])


def compare(
    path: str, files: list[Path], rounds: int, tool: Official | None, most_whole_mb: int
) -> list[Timed]:
    """Run both tools on each file, taking turns."""
    results = []
    for file in files:
        size = file.stat().st_size
        with tempfile.TemporaryDirectory() as folder:
            page_file = Path(folder, "page.html")
            command = [sys.executable, "-m", "memreplay", "view", str(file), "-o", str(page_file)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            ours = Timed("memreplay view", file.name, size, page_bytes=page_file.stat().st_size)
            turns: list[Callable[[], None]] = [partial(time_ours, path, page_file, ours)]
            results.append(ours)
            if tool:
                theirs = Timed("MemoryViz.js", file.name, size)
                whole = size <= most_whole_mb * 1_000_000
                turns.append(partial(time_official, path, tool, file, theirs, whole=whole))
                results.append(theirs)
            for _ in range(rounds):
                for turn in turns:
                    turn()
    return results


def shown(results: list[Timed]) -> str:
    """Return a table with one line per tool and file."""

    def middle(values: list[float] | list[int], scale: float = 1, digits: int = 2) -> str:
        return f"{statistics.median(values) / scale:.{digits}f}" if values else "-"

    titles = ("file", "tool", "first s", "CPU s", "all s", "CPU s", "MB", "frames/s", "longest ms")
    rows = [titles]
    rows += [
        (
            one.file,
            one.tool,
            middle(one.first_s),
            middle(one.first_cpu_s),
            middle(one.all_s),
            middle(one.all_cpu_s),
            middle(one.held_bytes, 1e6, 0),
            middle(one.frames_per_s, digits=0),
            middle(one.longest_frame_ms, digits=0),
        )
        for one in results
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    for one in results:
        if one.redraw_ms:
            said = ", ".join(
                f"{zoom}: {middle(ms, digits=0)}" for zoom, ms in one.redraw_ms.items()
            )
            lines.append(
                f"{one.file}: page of {one.page_bytes:,} bytes; redraw in ms by zoom: {said}"
            )
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="snapshots (pickles)")
    parser.add_argument("--sizes", default="", help="generated files of so many MB: 4,25,100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="not PyTorch's viewer")
    parser.add_argument(
        "--most", type=int, default=101, help="all allocations in PyTorch's viewer up to so many MB"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    asked = parser.parse_args()
    path = os.environ.get("MEMREPLAY_CHROMIUM", "/usr/bin/chromium")
    if not Path(path).exists():
        sys.exit("no chromium: `ci/viewer-tools` gets it, or MEMREPLAY_CHROMIUM names it")
    DATA.mkdir(exist_ok=True)
    files = [DATA / f"{size}mb.pkl" for size in asked.sizes.split(",") if size] + asked.files
    for file in files:
        if not file.exists():
            size = file.name.removesuffix("mb.pkl")
            generate = [sys.executable, str(HERE / "generate.py"), "-o", str(file), "--mb", size]
            subprocess.run(generate, check=True)
    tool = None if asked.ours else official(DATA)
    results = compare(path, files, asked.rounds, tool, asked.most)
    print(shown(results))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
