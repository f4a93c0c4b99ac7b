"""Saved pictures have everything that's needed to read them, as shapes if there aren't too many."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))


def test_saved_pictures(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "colour=stack&tab=flame")
    svg = saved(page, ".windows", "SVG").read_text()
    width, height = map(int, re.match(r'<svg [^>]* width="(\d+)" height="(\d+)"', svg).groups())  # type: ignore[union-attr]
    assert "<image" not in svg
    assert svg.count("<path fill=") > 500
    # The legend, a lane, an axis and the title.
    for text in (
        "model.py:28 forward aten::softmax_int",
        "ProfilerStep#0)",
        "4 GiB",
        EXAMPLE.name,
    ):
        assert f"{text}</text>" in svg or text in svg
    png = saved(page, ".windows", "PNG").read_bytes()
    assert struct.unpack(">II", png[16:24]) == (2 * width, 2 * height)
    flame = saved(page, ".toolbar", "SVG").read_text()
    assert re.search(r">model\.py:78</text>.*>forward</text>", flame)
    assert saved(page, ".toolbar", "PNG").read_bytes().startswith(b"\x89PNG")


def saved(page: Viewed, where: str, kind: str) -> Path:
    """Return the file that a button saves."""
    tab: Any = page.tab
    with tab.page.expect_download() as file:
        tab.page.click(f"{where} button:text-is('{kind}')")
    path: Path = file.value.path()
    return path
