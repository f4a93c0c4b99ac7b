"""Write a result as JSON: fields become keys, in order (docs/json.md)."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from memreplay.declared import text_only
from memreplay.render.strict_json import to_json
from memreplay.snapshot.record import Record, Rows

_PLAIN = {int, str, float, bool, type(None)}


def render_json(report: Record, *, indent: int | None = 2) -> str:
    """Return one JSON object, on one line if `indent` is None."""
    return to_json(plain(report), indent=indent)


def plain(value: Any) -> object:
    """Convert records to dicts and sequences."""
    kind = type(value)
    if kind is Rows:
        value, kind = value.records, tuple
    if kind is tuple or kind is list:
        if _PLAIN.issuperset(map(type, value)):
            return value
        return [plain(one) for one in value]
    if kind is dict:
        return {key: plain(one) for key, one in value.items()}
    if kind in _PLAIN:
        return value
    head, left_out, keys = _form(kind)  # type: ignore[arg-type]
    found: dict[str, object] = asdict(value)
    if not head and not left_out and not keys and _PLAIN.issuperset(map(type, found.values())):
        return found
    return head | {
        keys.get(name, name): one if type(one) in _PLAIN else plain(one)
        for name, one in found.items()
        if one is not UNSET and name not in left_out
    }


@cache
def _form(kind: type[Record]) -> tuple[dict[str, object], frozenset[str], dict[str, str]]:
    """Return a report's leading keys (schema and name), the fields that its JSON leaves out, and
    its renamed keys.
    """
    config = kind.__struct_config__
    head: dict[str, object] = {} if config.tag is None else {str(config.tag_field): config.tag}
    keys = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return head, text_only(kind), {name: key for name, key in keys if name != key}
