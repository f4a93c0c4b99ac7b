"""Draw the pictures for docs/explore.md: `ci/explore_pictures.py docs/images`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import memreplay as mr
from memreplay.explore.app import Explorer
from memreplay.explore.explored import Explored
from memreplay.explore.panes import Pane

GPT, STEP, DEEPER, OOM = "recorded_gpt", "transformer_step", "transformer_deeper", "serving_oom"
# Maps each picture's file to the keys that produce it.
PICTURES = {
    "explore": ((GPT,), ("down", "down", "down")),
    "explore-change": ((GPT,), ("home", "left_square_bracket", "s", "right_square_bracket")),
    "explore-two": ((STEP, DEEPER), ("down", "down")),
    "explore-oom": ((OOM,), ("o",)),
}
SIZE = (110, 28)
# The pictures must not load anything, so they use fonts that systems have.
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


async def draw(folder: Path) -> None:
    for picture, (names, keys) in PICTURES.items():
        panes = []
        for name in names:
            file = f"examples/{name}.pkl.gz"
            explored = Explored(mr.open(file))
            panes.append(Pane(explored, explored.first_look(0), file, chars="blocks"))
        app = Explorer(panes, "blocks")
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause(0.5)
            await pilot.press(*keys)
            await pilot.pause(0.5)
            await app.workers.wait_for_complete()
            await pilot.pause(0.5)
            drawn = app.export_screenshot()
        drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
        drawn = re.sub(r"font-family: Fira Code[^;]*;", f"font-family: {FONT};", drawn)
        (folder / f"{picture}.svg").write_text(shorter(drawn), encoding="utf-8")


def shorter(drawn: str) -> str:
    """Return the same picture, with short names and without repetition."""
    edges = ' shape-rendering="crispEdges"'
    drawn = re.sub(r"terminal-\d+-", "t-", drawn).replace(edges, "")
    return drawn.replace("<style>", "<style>\n    rect { shape-rendering: crispEdges; }", 1)


if __name__ == "__main__":
    os.chdir(Path(__file__).parent.parent)
    asyncio.run(draw(Path(sys.argv[1])))
