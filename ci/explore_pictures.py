"""Draws the pictures of docs/explore.md: `ci/explore_pictures.py docs/images`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import memreplay as mr
from memreplay.commands.explore.app import Explorer
from memreplay.commands.explore.explored import Explored

PICTURES = {
    "explore": ("down", "down", "down"),
    "explore-change": ("home", "left_square_bracket", "s", "right_square_bracket"),
}
SIZE = (104, 28)


async def draw(folder: Path) -> None:
    name = "examples/recorded_gpt.pkl.gz"
    for picture, keys in PICTURES.items():
        with mr.open(name) as snap:
            explored = Explored(snap)
            app = Explorer(explored, explored.first_look(0), file=name, chars="blocks")
            async with app.run_test(size=SIZE) as pilot:
                await pilot.pause(0.5)
                await pilot.press(*keys)
                await pilot.pause(0.5)
                app.save_screenshot(f"{picture}.svg", str(folder))


if __name__ == "__main__":
    os.chdir(Path(__file__).parent.parent)
    asyncio.run(draw(Path(sys.argv[1])))
