"""Write strict JSON: no NaN and no lone surrogates."""

from __future__ import annotations

import json

from memreplay.texts import json_inert


def to_json(value: object, *, indent: int | None, ascii_only: bool = True) -> str:
    """Return JSON text. Raises ValueError for NaN and infinity.

    With `ascii_only` false, characters aren't escaped, including lone surrogates, which UTF-8 can't
    encode.
    """
    found = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=ascii_only)
    return json_inert(found)
