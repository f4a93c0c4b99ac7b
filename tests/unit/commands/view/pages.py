"""Read the records and columns of a written page."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any


def records(html: bytes) -> Any:
    """Return the JSON in the page."""
    (text,) = re.findall(rb'id="memreplay-page">([^<]*)</script>', html)
    return json.loads(text)


def columns(html: bytes) -> list[bytes]:
    """Return each snapshot's columns, decompressed."""
    found = re.findall(rb'class="memreplay-columns">([^<]*)</script>', html)
    return [zlib.decompress(base64.b64decode(one, validate=True)) for one in found]
