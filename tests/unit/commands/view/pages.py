"""What a page that was written holds: its records and its columns."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any


def records(html: bytes) -> Any:
    """What stands in the page as JSON."""
    (text,) = re.findall(rb'id="memreplay-page">([^<]*)</script>', html)
    return json.loads(text)


def columns(html: bytes) -> list[bytes]:
    """The columns of each snapshot, inflated."""
    found = re.findall(rb'class="memreplay-columns">([^<]*)</script>', html)
    return [zlib.decompress(base64.b64decode(one, validate=True)) for one in found]
