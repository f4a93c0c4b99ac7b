"""The base of all results: a frozen record of typed fields, which are the keys of its JSON."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from memreplay.snapshot.brief import html_of, line_of


class Record(Struct, frozen=True):
    """A result, or a part of one.

    Its fields are the keys of its JSON, in their order, but for those that `text_only` names: what
    text alone needs. A field that is UNSET is left out of the JSON. The string below a field says
    what it means; docs/schemas and the tables of docs/json.md are made of these (ci/schemas.py).
    """

    text_only: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        return line_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)
