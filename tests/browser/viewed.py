"""Read a page that is open in a tab: its elements' text, and its state through scripts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.browser.tabs import Tab, url_of

# Integer columns are passed as base64, because a picture takes a second as JSON.
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
# Returns the page's text for each of several states: with the table's visible rows, or with all
# rows after enlarging the table.
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
    """A row in the table of holders."""

    group: int
    bytes: int
    blocks: int
    name: str


class Seen(NamedTuple):
    """What the page says about a moment."""

    moment: int
    bytes: int
    reserved: int | None
    """Reserved bytes, unless that's the measure shown."""
    total: int | None
    """The table's total."""
    way: str | None
    """The key by which the table's rows are grouped."""
    rows: list[Row]


class Picture(NamedTuple):
    """The stacked picture on the page: ids and RGBA by row from the top, moments by column."""

    ids: NDArray[np.int32]
    moments: NDArray[np.int32]
    query: dict[str, Any]
    drawn: NDArray[np.uint8]
    """The pixels of the canvas, if requested."""


# The script may not have run yet, so wait; if it can't run, give up after a while.
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
        """Open a page, and wait until its first view is complete."""
        self.tab.goto(url_of(path) + (f"#{fragment}" if fragment else ""))
        self.ready()
        return self

    def ready(self) -> None:
        """Wait until the first view is complete."""
        self.tab.evaluate(READY)

    def set(self, **partial: Any) -> None:
        """Change the view, and wait until the whole page shows it."""
        self.tab.evaluate("(partial) => memreplay.set(partial)", partial)

    def settle(self) -> None:
        """Wait for the effect of keys or the mouse."""
        self.set()

    def state(self) -> dict[str, Any]:
        """Return the page's state."""
        found: dict[str, Any] = self.tab.evaluate("() => memreplay.state()")
        return found

    def bytes(self, what: str) -> int:
        """Return the byte count in the first matching element."""
        found = self.tab.evaluate(
            "(what) => document.querySelector(`[data-what=${what}]`)?.dataset.bytes ?? ''", what
        )
        assert found, f"nothing on the page says {what}"
        return int(found)

    def moment(self) -> int:
        """Return the moment whose byte count is shown at the cursor."""
        return int(
            self.tab.evaluate(
                "() => document.querySelector('[data-what=cursor-bytes]').dataset.moment"
            )
        )

    def text(self, selector: str = "body") -> str:
        """Return an element's visible text."""
        found: str = self.tab.evaluate(
            "(selector) => document.querySelector(selector)?.innerText ?? ''", selector
        )
        return found

    def count(self, selector: str) -> int:
        """Return the number of matching elements."""
        found: int = self.tab.evaluate("(one) => document.querySelectorAll(one).length", selector)
        return found

    def seen(self, states: list[dict[str, Any]], *, all_rows: bool = False) -> list[Seen]:
        """Return the page's text in each of these states, with all rows of long tables or only the
        first rows.
        """
        found = self.tab.evaluate(_SEEN, [states, all_rows])
        return [Seen(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in found]

    def picture(self, *, drawn: bool = False) -> Picture:
        """Return the stacked picture; `drawn` reads the canvas as well."""
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
        """Return a result from the page's worker."""
        return self.tab.evaluate(
            "([method, given]) => memreplay.engine[method](...given)", [method, list(arguments)]
        )
