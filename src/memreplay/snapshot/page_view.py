"""An interactive page as a Python value, which a notebook shows and which can be saved to a
file.
"""

from __future__ import annotations

import os

from memreplay.io.whole import whole_file
from memreplay.texts import html_text

HEIGHT = 720  # pixels in a notebook
MOST_INLINE = 64 << 20  # in bytes; larger pages make notebooks slow to open and save


class PageView:
    """The page that `memreplay view` writes, as returned by `memreplay.view` and
    `Snapshot.view`.
    """

    def __init__(self, html: bytes, title: str, height: int = HEIGHT) -> None:
        self.html = html
        """The whole file, in UTF-8."""
        self.title = title
        """The page's title in the browser."""
        self.height = height
        """Height in a notebook, in pixels."""

    def __repr__(self) -> str:
        return f"<PageView {self.title}: {len(self.html) / (1 << 20):,.1f} MiB>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file atomically. Raises OSError."""
        with whole_file(path) as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        """Show the page in a sandboxed frame, so that it can't affect the notebook."""
        if len(self.html) > MOST_INLINE:
            return f"<p>{html_text(repr(self))} is too large for a notebook: .save('page.html')</p>"
        inner = self.html.replace(b"&", b"&amp;").replace(b'"', b"&quot;").decode()
        return (
            f'<iframe title="{html_text(self.title)}" sandbox="allow-scripts allow-downloads"'
            f' style="width: 100%; height: {int(self.height)}px; border: 0" srcdoc="{inner}">'
            "</iframe>"
        )
