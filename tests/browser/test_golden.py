"""Golden pictures of larger files: both the page and the slow reference painter match them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import memreplay as mr
from tests.browser import golden
from tests.browser.conftest import OpenPage, PageOf

ASKED = """async ([view, width, height]) => {
  const query = memreplay.picture().query;
  const { ids } = await memreplay.engine.picture({
    ...query, width, height, low: 0, high: view.high, span: { from: 0, to: view.stop },
  });
  return Array.from(ids);
}"""


@pytest.mark.parametrize("path", golden.EXAMPLES, ids=lambda one: one.name[:-7])
def test_painter_matches_the_golden_picture(path: Path) -> None:
    expected = golden.read_png(golden.FOLDER / f"{path.name[:-7]}.png")
    assert np.array_equal(golden.painted(mr.open(path)), expected)


@pytest.mark.browser
def test_page_matches_the_golden_picture(opened: OpenPage, page_of: PageOf, tmp_path: Path) -> None:
    generated = tmp_path / f"{golden.GENERATED}.pkl.gz"
    golden.generate(generated)
    page = opened(generated)
    for path in (generated, *golden.EXAMPLES[1:3]):
        page.open(page_of(path))
        view = golden.whole(mr.open(path))
        asked = [{"high": view.high, "stop": view.stop}, view.width, view.height]
        found = np.array(page.tab.evaluate(ASKED, asked)).reshape(view.height, view.width)
        expected = golden.read_png(golden.FOLDER / f"{path.name[:-7]}.png")
        assert np.array_equal(found, expected), path.name
