"""A page as one HTML file: style, records, columns and script, and nothing from anywhere else.

Strings of a snapshot are whatever somebody wrote there. They stand in the title, where they are
escaped, and in the records, which are JSON in ASCII without any "<": no text leaves its element.
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

# What stands there until the script runs, and stays where it cannot.
WAITING = "Reading … If nothing else appears here, the file is cut off or damaged: copy it again."
PIECE = 3 << 18  # bytes of a column that are spelled at once: three are four letters
# Without a script nothing is drawn, but the text of the report is among the records.
NO_SCRIPT = (
    "This page is drawn by a script, and scripts are switched off here. Allow them for this file;"
    " it loads nothing from any network. memreplay report says the same in words."
)


def page_html(
    page: Page | FleetPage, columns: Sequence[bytes], script_name: str = "viewer"
) -> Iterator[bytes]:
    """The file, in pieces; `columns` are those of each snapshot, or of the fleet, as a zlib stream;
    `script_name` is which of the two scripts draws it."""
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
    """What a policy calls the one script or style that has this text."""
    return f"sha256-{b64encode(sha256(text).digest()).decode()}"


def _json(page: Page | FleetPage) -> bytes:
    """The records, in ASCII: what is no letter of it is written as its number, a lone surrogate or
    a mark that turns text round among them."""
    text = json.dumps(plain(page), separators=(",", ":"), allow_nan=False)
    return script_json(text).encode("ascii")
