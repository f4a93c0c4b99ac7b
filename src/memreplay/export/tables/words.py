"""The words that ids in columns stand for: strings, metadata, pools, each spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.arrow import spelled, texts, words_array

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay.snapshot.snapshot import Snapshot

# What PyTorch writes where there is none.
_NO_CONTEXT = ("", "N/A")


class Words:
    """The words that ids of one kind stand for, and the columns made of them.

    Ids that any of `columns` has are spelled once, with `spell`. ABSENT_ID, and an id that is
    spelled None, is null.
    """

    def __init__(self, spell: Callable[[int], str | None], *columns: NDArray[np.uint32]) -> None:
        columns = tuple(map(_varied, columns))
        self.limit = max((_largest(column) for column in columns), default=-1) + 1
        used = np.zeros(self.limit + 1, dtype=bool)  # the last is ABSENT_ID's
        for column in columns:
            used[np.minimum(column, self.limit)] = True
        # No word is there twice: pandas takes no such dictionary.
        words: dict[str, int] = {}
        self.place = np.full(self.limit + 1, -1, dtype=np.int32)
        for i in np.flatnonzero(used[: self.limit]).tolist():
            word = spell(i)
            if word is not None:
                self.place[i] = words.setdefault(spelled(word), len(words))
        self.words = words_array(list(words) or [""])
        # The last column that was the same everywhere: mostly the next batch has it too.
        self._same: tuple[tuple[int, int], pa.DictionaryArray] | None = None

    def column(
        self, ids: NDArray[np.unsignedinteger], missing: NDArray[np.bool_] | None = None
    ) -> pa.DictionaryArray:
        """The words of these ids, null where `missing` says so too."""
        rows = len(ids)
        if missing is not None:
            return self._made(np.where(missing, np.uint32(_core.ABSENT_ID), ids))
        if rows and ids.strides[0] == 0:
            same = (int(ids[0]), rows)
            if self._same is None or self._same[0] != same:
                self._same = same, self._made(np.repeat(ids[:1], rows))
            return self._same[1]
        return self._made(ids)

    def _made(self, ids: NDArray[np.unsignedinteger]) -> pa.DictionaryArray:
        # ABSENT_ID is above the limit.
        at = self.place[np.minimum(ids, self.limit, dtype=np.uint32, casting="same_kind")]
        missing = at < 0
        if not missing.any():
            return texts(at, self.words)
        return texts(np.maximum(at, 0), self.words, missing)


def _varied(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A column, or one row of one that is the same everywhere."""
    return column[:1] if column.strides[0] == 0 else column


def _largest(column: NDArray[np.uint32]) -> int:
    known = column[column != _core.ABSENT_ID]
    return int(known.max()) if len(known) else -1


def code_words(spell: Callable[[int], str | None], codes: int) -> Words:
    """Of codes, from 0 on."""
    return Words(spell, np.arange(codes, dtype=np.uint32))


def string_words(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Of string ids."""
    return Words(snap.text, column)


def said_words(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Of string ids, null for the empty text: the row does not say."""
    return Words(lambda i: snap.text(i) or None, column)


def metadata_words(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Of metadata: a text as it is, data as JSON, null for what says that there is none."""

    def spell(i: int) -> str | None:
        text = (snap.text(i) or "").removeprefix("\0")
        return None if text in _NO_CONTEXT else text

    return Words(spell, column)


def pool_words(snap: Snapshot) -> Words:
    """Of pool ids: as --pool takes them, `0:0` for the default."""
    return code_words(lambda i: "{}:{}".format(*snap.native.pool(i)), snap.native.n_pools)
