"""Code is named by what differs, in full on hover; selecting an allocation moves nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests import build
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("serving"))
NAMES = """() => [...document.querySelectorAll('.legend .name')].map((one) => ({
  text: one.textContent,
  whole: one.closest('[title]')?.title ?? '',
  cut: one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight + 1,
}))"""
PLACES = """() => Object.fromEntries(['tabs', 'picture', 'legend']
  .map((one) => [one, document.querySelector(`.${one}`).getBoundingClientRect().toJSON()]))"""


def test_labels_are_distinct(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "colour=stack&tab=holders")
    names = page.tab.evaluate(NAMES)
    assert {
        "text": "kv_cache.py:18 append",
        "whole": "append  /workspace/chat/kv_cache.py:18\nforward  /workspace/chat/model.py:29"
        "\ngenerate  /workspace/chat/server.py:33",
        "cut": False,
    } in names
    assert not any(one["cut"] for one in names)
    texts = [one["text"] for one in names]
    assert len({*texts}) == len(texts)
    assert sum(one.startswith("model.py:21 attention ← ") for one in texts) > 1
    assert page.text("[data-what=folder]") == "files in /workspace/chat/"
    assert page.text(".group .name") == "kv_cache.py:18 append"
    assert page.text(".group .callers").startswith("← model.py:29 forward ← server.py:33 generate")
    # Commands have full paths.
    assert "/serving_oom.pkl.gz" in page.text("[data-what=command]")


def test_hover_shows_the_whole_stack(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    over_first(page)
    assert page.text(".tooltip .frames").split("\n") == [
        "kv_cache.py:18 append",
        "model.py:29 forward",
        "server.py:33 generate",
        "server.py:53 serve",
        "server.py:71 main",
        "server.py:75 <module>",
    ]
    page = opened(deep(60), viewport={"width": 1440, "height": 1000})
    over_first(page)
    lines = page.text(".tooltip .frames").split("\n")
    assert lines[0] == "cell 77:1 f1"
    assert len(lines) > 10
    assert lines[-1] == f"… {60 - len(lines) + 1} more, click"
    box = page.tab.evaluate("() => document.querySelector('.tooltip').getBoundingClientRect()")
    assert box["y"] >= 0
    assert box["bottom"] <= 1000
    # In details, all of it can be scrolled to.
    page.set(pin=0)
    assert page.count(".details .frames li") == 60
    assert page.tab.evaluate(
        "() => { const { scrollHeight, clientHeight } = document.querySelector('.details');"
        " return scrollHeight > clientHeight; }"
    )


def test_stacks_of_cpp_begin_behind_the_allocator(opened: OpenPage) -> None:
    names = ["torch::unwind::unwind()", "c10::cuda::malloc", "at::native::add", "start_thread"]
    frames = [(one, f"/lib/libtorch.so.{i}", 5) for i, one in enumerate(names)]
    page = opened(build.SnapshotBuilder().alloc(0x1000, 512, frames=frames).build(), "pin=0")
    assert page.count(".details .frames li") == 2
    assert page.text(".details .frames").endswith("start_thread")
    page.tab.evaluate("() => document.querySelector('.details .small').click()")
    page.settle()
    assert page.count(".details .frames li") == 4


def test_selecting_moves_nothing(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "colour=stack", viewport={"width": 1440, "height": 900})
    before = page.tab.evaluate(PLACES)
    for pin in (0, 40, 3000):
        page.set(pin=pin)
        after = page.tab.evaluate(PLACES)
        assert (after["tabs"], after["picture"]) == (before["tabs"], before["picture"])
        assert after["legend"]["height"] > 100
        assert after["legend"]["y"] == before["legend"]["y"]
        parts = ["headline", "frames", "pairs"]
        tops = [
            page.tab.evaluate(f"() => document.querySelector('.details .{one}').offsetTop")
            for one in parts
        ]
        assert all(a < b for a, b in pairwise(tops))
    page.tab.resize(700, 900)
    page.settle()
    below = page.tab.evaluate(PLACES)["tabs"]["y"]
    page.set(pin=None)
    assert page.tab.evaluate(PLACES)["tabs"]["y"] == below


def over_first(page: Viewed) -> None:
    """Hover over the middle of the picture."""
    page.tab.page.hover(".picture", position={"x": 600, "y": 150})  # type: ignore[attr-defined]
    page.tab.page.wait_for_selector(".tooltip .allocation")  # type: ignore[attr-defined]
    page.settle()


def deep(frames: int) -> build.Snapshot:
    """Return a snapshot whose only allocation was made in a notebook, at this depth."""
    stack = [(f"f{i}", "/tmp/ipykernel_5/77.py", i) for i in range(1, frames + 1)]
    return build.SnapshotBuilder().alloc(0x1000, 512, frames=stack).free(0x1000, 512).build()
