"""The words that columns refer to: strings, pools, actions, each spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay import _core
from memreplay.tables.arrow import texts, words_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot import Snapshot


class Words:
    """The words that ids of one kind stand for, and the columns made of them.

    Ids that any of `columns` has are spelled once, with `spell`; ABSENT_ID stands for none.
    """

    def __init__(self, spell: Callable[[int], str | None], *columns: NDArray[np.uint32]) -> None:
        columns = tuple(map(_varied, columns))
        # One more than the largest id, and the place of ABSENT_ID.
        self.limit = max((_largest(column) for column in columns), default=-1) + 1
        used = np.zeros(self.limit + 1, dtype=bool)
        for column in columns:
            used[np.minimum(column, self.limit)] = True
        ids = np.flatnonzero(used[: self.limit])
        self.words = words_array([spell(int(i)) or "" for i in ids] or [""])
        self.place = np.zeros(self.limit + 1, dtype=np.int32)
        self.place[ids] = np.arange(len(ids), dtype=np.int32)

    def column(self, ids: NDArray[np.uint32]) -> Any:
        """The words of these ids, null for ABSENT_ID."""
        missing = ids == _core.ABSENT_ID
        at = self.place[np.minimum(ids, self.limit)]
        return texts(at, self.words, missing)


def _varied(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A column, or one row of one that is the same everywhere."""
    return column[:1] if column.strides[0] == 0 else column


def _largest(column: NDArray[np.uint32]) -> int:
    known = column[column != _core.ABSENT_ID]
    return int(known.max()) if len(known) else -1


def string_words(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Of string ids."""
    return Words(snap.text, column)


def metadata_words(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Of metadata: a text as it is, data as JSON."""
    return Words(lambda i: (snap.text(i) or "").removeprefix("\0"), column)


def pool_words(snap: Snapshot) -> Words:
    """Of pool ids: as --pool takes them, `0:0` for the default."""
    every = np.arange(snap.native.n_pools, dtype=np.uint32)
    return Words(lambda i: "{}:{}".format(*snap.native.pool(i)), every)
