"""An interactive page as a value: shown by a notebook, saved as a file."""

from __future__ import annotations

import os

from memreplay.io.whole import whole_file
from memreplay.texts import html_text

HEIGHT = 720  # pixels in a notebook
MOST_INLINE = 64 << 20  # bytes; a notebook that holds more is slow to open and to save


class PageView:
    """The page that `memreplay view` writes. Made by `memreplay.view`, or `Snapshot.view`."""

    def __init__(self, html: bytes, title: str, height: int = HEIGHT) -> None:
        self.html = html
        """The whole file, in UTF-8."""
        self.title = title
        """What the browser shows as the page's title."""
        self.height = height
        """How many pixels high a notebook shows it."""

    def __repr__(self) -> str:
        return f"<PageView {self.title}: {len(self.html) / (1 << 20):,.1f} MiB>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file: whole, or not at all. Raises OSError where that cannot be."""
        with whole_file(path) as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, which can do nothing to the notebook around it."""
        if len(self.html) > MOST_INLINE:
            return f"<p>{html_text(repr(self))} is too large for a notebook: .save('page.html')</p>"
        inner = self.html.replace(b"&", b"&amp;").replace(b'"', b"&quot;").decode()
        return (
            f'<iframe title="{html_text(self.title)}" sandbox="allow-scripts allow-downloads"'
            f' style="width: 100%; height: {int(self.height)}px; border: 0" srcdoc="{inner}">'
            "</iframe>"
        )
