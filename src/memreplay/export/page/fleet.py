"""Build a fleet's page: its records, and its ranks' curves as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memreplay.engine.query._vectors import vector
from memreplay.export.page.coding import Coded, Columns, check_exact
from memreplay.export.page.fleet_records import FleetPage, PageRank, PageShare

if TYPE_CHECKING:
    from collections.abc import Iterable

Curves = Sequence[Sequence[int]]


class Texts:
    """Names without duplicates."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def shares(self, parts: Iterable[tuple[str, int]]) -> tuple[PageShare, ...]:
        """Return a peak's parts by name index."""
        return tuple(
            PageShare(self._places.setdefault(name, len(self._places)), n_bytes)
            for name, n_bytes in parts
        )

    @property
    def all(self) -> tuple[str, ...]:
        """The names by index."""
        return tuple(self._places)


def fleet_page(
    ranks: Sequence[PageRank], curves: Curves, page: Callable[[Coded, int], FleetPage]
) -> tuple[FleetPage, list[bytes]]:
    """Return the page and its columns.

    `page` builds the records around them. Raises LimitError for values that a browser would show
    incorrectly.
    """
    for one in ranks:
        check_exact(one.peak_bytes, one.reserved_bytes or 0, one.headroom_bytes or 0)
        check_exact(*(share.bytes for share in (*one.categories, *one.holders)))
    whole = vector([n_bytes for curve in curves for n_bytes in curve])
    columns = Columns(len(whole))
    coded = columns.add(whole, differences=True)
    return page(coded, columns.bytes), [columns.packed()]
