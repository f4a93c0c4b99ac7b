"""Makes strict JSON of results: no NaN, no raw surrogates, nothing that a reader would choke on."""

from __future__ import annotations

import json

from memreplay.texts import json_inert


def to_json(value: object, *, indent: int | None, ascii_only: bool = True) -> str:
    """JSON text; ValueError for a NaN or an infinity, which JSON cannot say.

    It is ASCII, or has letters as they are, unpaired surrogates too, which UTF-8 cannot say.
    """
    found = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=ascii_only)
    return json_inert(found)
