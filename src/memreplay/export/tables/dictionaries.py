"""Look up the texts for id columns: strings, metadata, pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.arrow import dictionary_array, spelled, texts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay.snapshot.snapshot import Snapshot

# PyTorch's values for a missing context.
_NO_CONTEXT = ("", "N/A")


class Words:
    """Texts for one kind of id, and the columns built from them.

    `spell` returns an id's text and is called once per id. ABSENT_ID, and ids for which it returns
    None, become null.
    """

    def __init__(self, spell: Callable[[int], str | None], *columns: NDArray[np.uint32]) -> None:
        columns = tuple(map(_varied, columns))
        self.limit = max((_largest(column) for column in columns), default=-1) + 1
        used = np.zeros(self.limit + 1, dtype=bool)  # the last entry is for ABSENT_ID
        for column in columns:
            used[np.minimum(column, self.limit)] = True
        # Remove duplicates, because pandas rejects a dictionary that has any.
        words: dict[str, int] = {}
        self.place = np.full(self.limit + 1, -1, dtype=np.int32)
        for i in np.flatnonzero(used[: self.limit]).tolist():
            word = spell(i)
            if word is not None:
                self.place[i] = words.setdefault(spelled(word), len(words))
        self.words = dictionary_array(list(words) or [""])
        # The last constant column is cached, because the next batch often has the same one.
        self._same: tuple[tuple[int, int], pa.DictionaryArray] | None = None

    def column(
        self, ids: NDArray[np.unsignedinteger], missing: NDArray[np.bool_] | None = None
    ) -> pa.DictionaryArray:
        """Return the text for each of these ids; also null where `missing` is true."""
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
        # ABSENT_ID is above the limit, so it maps to the last entry.
        at = self.place[np.minimum(ids, self.limit, dtype=np.uint32, casting="same_kind")]
        missing = at < 0
        if not missing.any():
            return texts(at, self.words)
        return texts(np.maximum(at, 0), self.words, missing)


def _varied(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the column, or its first row if all are equal."""
    return column[:1] if column.strides[0] == 0 else column


def _largest(column: NDArray[np.uint32]) -> int:
    known = column[column != _core.ABSENT_ID]
    return int(known.max()) if len(known) else -1


def code_dictionary(spell: Callable[[int], str | None], codes: int) -> Words:
    """Spell codes from 0 on."""
    return Words(spell, np.arange(codes, dtype=np.uint32))


def string_dictionary(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Spell string ids."""
    return Words(snap.text, column)


def optional_dictionary(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Spell string ids, with null for the empty text."""
    return Words(lambda i: snap.text(i) or None, column)


def metadata_dictionary(snap: Snapshot, column: NDArray[np.uint32]) -> Words:
    """Spell metadata ids: text unchanged, data as JSON, and null for a missing context."""

    def spell(i: int) -> str | None:
        text = (snap.text(i) or "").removeprefix("\0")
        return None if text in _NO_CONTEXT else text

    return Words(spell, column)


def pool_dictionary(snap: Snapshot) -> Words:
    """Spell pool ids in the form that --only pool takes, e.g. `0:0` for the default pool."""
    return code_dictionary(lambda i: "{}:{}".format(*snap.native.pool(i)), snap.native.n_pools)
