"""Write a page as one self-contained HTML file: style, records, columns and script.

A snapshot's strings are untrusted. They only appear in the title, where they are escaped, and in
the records, which are ASCII JSON without "<", so no string can break out of its element.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from memreplay.io.version import __version__
from memreplay.render.record_json import plain
from memreplay.texts import html_text, script_json

if TYPE_CHECKING:
    from memreplay.export.page.fleet_records import FleetPage
    from memreplay.export.page.records import Page

# Shown until the script runs, or if it can't run.
WAITING = "Loading … If this doesn't go away, the file is cut off or damaged: copy it again."
PIECE = 3 << 18  # bytes of a column encoded at once; a multiple of 3 for base64
# Without the script, nothing is drawn. Even then, the page's records include the report as text.
NO_SCRIPT = (
    "This page needs JavaScript, which is turned off. Allow it for this file (the"
    " page loads nothing from the network), or run memreplay report."
)


def page_html(
    page: Page | FleetPage, columns: Sequence[bytes], script_name: str = "viewer"
) -> Iterator[bytes]:
    """Yield the file in chunks.

    `columns`: a zlib stream for each snapshot, or for the fleet. `script_name`: which of the two
    scripts draws the page.
    """
    style, script = _asset("viewer.css"), _asset(f"{script_name}.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_source(script)}'",
            "worker-src blob:",
            f"style-src '{_source(style)}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="memreplay {html_text(__version__)}">
<title>{html_text(page.title)}</title>
<link rel="icon" href="data:,">
<style>"""
    yield head.encode()
    yield style
    yield f'</style>\n</head>\n<body>\n<main id="memreplay-root"><p>{WAITING}</p></main>\n'.encode()
    yield f"<noscript><p>{NO_SCRIPT}</p></noscript>\n".encode()
    yield b'<script type="application/json" id="memreplay-page">'
    yield _json(page)
    yield b"</script>\n"
    for data in columns:
        yield b'<script type="application/octet-stream" class="memreplay-columns">'
        for start in range(0, len(data), PIECE):
            yield b64encode(data[start : start + PIECE])
        yield b"</script>\n"
    yield b'<script id="memreplay-script">'
    yield script
    yield b"</script>\n</body>\n</html>\n"


def _asset(name: str) -> bytes:
    return (files("memreplay.export.page") / "assets" / name).read_bytes()


def _source(text: bytes) -> str:
    """Return the policy's hash source for a script or style."""
    return f"sha256-{b64encode(sha256(text).digest()).decode()}"


def _json(page: Page | FleetPage) -> bytes:
    """Encode the records in ASCII: other characters are escaped, including lone surrogates and bidi
    marks.
    """
    text = json.dumps(plain(page), separators=(",", ":"), allow_nan=False)
    return script_json(text).encode("ascii")
