"""A page that is open in a tab: what its elements show, and its handle for scripts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.browser.tabs import Tab, url_of

# Columns of integers cross as base64: as JSON a picture takes a second.
_PICTURE = """(whole) => {
  const spelled = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    let text = '';
    for (let i = 0; i < bytes.length; i += 32768)
      text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
  };
  const now = memreplay.picture();
  if (now === null) return null;
  const { ids, moments, width, height, query } = now;
  const canvas = document.querySelector('[data-what=picture]');
  const said = {
    ids: spelled(ids), moments: spelled(moments), width, height, query, drawn: '',
    size: [canvas.width, canvas.height],
  };
  if (!whole) return said;
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext('2d', { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const drawn = context.getImageData(0, 0, canvas.width, canvas.height);
  return { ...said, drawn: spelled(drawn.data) };
}"""
# What the page says at one state after the other. Of the table the rows that are in sight, or all:
# it then gets as much room as it asks for.
_SEEN = """async ([states, all]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const bytes = (what) => {
    const found = document.querySelector(`[data-what=${what}]`)?.dataset.bytes;
    return found === undefined ? null : Number(found || NaN);
  };
  const rows = (scroller) =>
    [...(scroller?.querySelectorAll('tbody tr[data-group]') ?? [])].map((row) => ({
      group: Number(row.dataset.group),
      bytes: Number(row.querySelector('[data-what=bytes]').dataset.bytes),
      blocks: Number(row.cells[2].textContent.replaceAll(',', '')),
      name: row.querySelector('.group .name').textContent,
    }));
  const allRows = async (scroller) => {
    if (!scroller) return [];
    const before = scroller.style.cssText;
    scroller.style.flex = 'none';
    scroller.style.height = scroller.style.maxHeight = '2000000px';
    let found = [];
    for (let last = -1; found.length !== last; ) {
      last = found.length;
      for (let i = 0; i < 3; i++) await frame();
      found = rows(scroller);
    }
    scroller.style.cssText = before;
    return found;
  };
  const seen = [];
  for (const state of states) {
    await memreplay.set(state);
    const scroller = document.querySelector('[role=tabpanel] .scroller');
    seen.push({
      moment: Number(document.querySelector('[data-what=cursor-bytes]').dataset.moment),
      bytes: bytes('cursor-bytes'),
      reserved: bytes('cursor-reserved'),
      total: bytes('total'),
      way: document.querySelector('[role=tabpanel] select')?.value ?? null,
      rows: all ? await allRows(scroller) : rows(scroller),
    });
  }
  return seen;
}"""


class Row(NamedTuple):
    """A row of the table of holders."""

    group: int
    bytes: int
    blocks: int
    name: str


class Seen(NamedTuple):
    """What the page says of a moment."""

    moment: int
    bytes: int
    reserved: int | None
    """Where reserved bytes are not the ones that are shown."""
    total: int | None
    """Of the table."""
    way: str | None
    """What its rows are grouped by."""
    rows: list[Row]


class Picture(NamedTuple):
    """The stacked picture that is shown: ids and RGBA by row from the top, moments by column."""

    ids: NDArray[np.int32]
    moments: NDArray[np.int32]
    query: dict[str, Any]
    drawn: NDArray[np.uint8]
    """What the canvas has; nothing unless it was asked for."""


# Where the script has not run yet it is waited for; where it cannot, for a while.
READY = """async () => {
  for (let i = 0; i < 250 && !globalThis.memreplay; i++) {
    await new Promise((done) => setTimeout(done, 20));
  }
  await globalThis.memreplay?.ready;
}"""


class Viewed:
    """An open page."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def open(self, path: Path, fragment: str = "") -> Viewed:
        """Opens a page, and waits until all of its first view is there."""
        self.tab.goto(url_of(path) + (f"#{fragment}" if fragment else ""))
        self.ready()
        return self

    def ready(self) -> None:
        """Waits until all of the first view is there."""
        self.tab.evaluate(READY)

    def set(self, **partial: Any) -> None:
        """Shows something else, and waits until all of the page shows it."""
        self.tab.evaluate("(partial) => memreplay.set(partial)", partial)

    def settle(self) -> None:
        """Waits until what keys or the mouse asked for is there."""
        self.set()

    def state(self) -> dict[str, Any]:
        """What is shown."""
        found: dict[str, Any] = self.tab.evaluate("() => memreplay.state()")
        return found

    def bytes(self, what: str) -> int:
        """The bytes that the first such element says."""
        found = self.tab.evaluate(
            "(what) => document.querySelector(`[data-what=${what}]`)?.dataset.bytes ?? ''", what
        )
        assert found, f"nothing on the page says {what}"
        return int(found)

    def moment(self) -> int:
        """The moment that the bytes at the cursor are of."""
        return int(
            self.tab.evaluate(
                "() => document.querySelector('[data-what=cursor-bytes]').dataset.moment"
            )
        )

    def text(self, selector: str = "body") -> str:
        """The text that is seen of an element."""
        found: str = self.tab.evaluate(
            "(selector) => document.querySelector(selector)?.innerText ?? ''", selector
        )
        return found

    def count(self, selector: str) -> int:
        """How many elements there are."""
        found: int = self.tab.evaluate("(one) => document.querySelectorAll(one).length", selector)
        return found

    def seen(self, states: list[dict[str, Any]], *, all_rows: bool = False) -> list[Seen]:
        """What the page says at each of some states; of long tables the first rows, or all."""
        found = self.tab.evaluate(_SEEN, [states, all_rows])
        return [Seen(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in found]

    def picture(self, *, drawn: bool = False) -> Picture:
        """The stacked picture; `drawn` reads the canvas, too."""
        found = self.tab.evaluate(_PICTURE, drawn)
        assert found, "the page has no picture"
        shape = (found["height"], found["width"])
        assert found["size"] == [found["width"], found["height"]], "a coarse picture is shown"
        return Picture(
            np.frombuffer(base64.b64decode(found["ids"]), dtype=np.int32).reshape(shape),
            np.frombuffer(base64.b64decode(found["moments"]), dtype=np.int32),
            found["query"],
            np.frombuffer(base64.b64decode(found["drawn"]), dtype=np.uint8).reshape(
                *(shape if drawn else (0, 0)), 4
            ),
        )

    def engine(self, method: str, *arguments: Any) -> Any:
        """What the page's worker answers."""
        return self.tab.evaluate(
            "([method, given]) => memreplay.engine[method](...given)", [method, list(arguments)]
        )
