"""Tests of dataset_rows.py: words are decoded once per dictionary; each batch has its own
dictionary.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memreplay.engine.read._adding import WrongRowError
from memreplay.io.dataset_rows import _Words


class Interned:
    """A fake `Adding.intern` that counts its texts."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.asked = 0

    def intern(self, data: bytes, offsets: Any) -> Any:
        ids = []
        for first, last in pairwise(offsets):
            self.asked += 1
            text = data[first:last]
            if text not in self.texts:
                self.texts.append(text)
            ids.append(self.texts.index(text))
        return np.array(ids, dtype="u4")


def batch(indices: Any, words: Any) -> pa.RecordBatch:
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), words, safe=False)
    return pa.RecordBatch.from_arrays([column], names=["name"])


def test_unchanged_dictionary_is_decoded_once() -> None:
    interned = Interned()
    words = _Words(interned)  # type: ignore[arg-type]
    same = pa.array([f"w{i}" for i in range(50)])
    for i in range(50):
        found = words.strings(batch([i, None, 49 - i], same), "name", 99)
        assert found.tolist() == [i, 99, 49 - i]
    assert interned.asked == 50


def test_another_dictionary_has_other_words() -> None:
    interned = Interned()
    words = _Words(interned)  # type: ignore[arg-type]
    first, other = pa.array(["a", "b"]), pa.array(["b", "c", "a"])
    whole = pa.array(["x", "a", "b"])
    assert words.strings(batch([0, 1], first), "name", 9).tolist() == [0, 1]
    assert words.strings(batch([0, 1, 2], other), "name", 9).tolist() == [1, 2, 0]
    assert words.strings(batch([0, 1], first), "name", 9).tolist() == [0, 1]
    # These are different parts of the same buffer.
    assert words.strings(batch([0, 1], whole[1:]), "name", 9).tolist() == [0, 1]
    assert words.strings(batch([0, 1], whole[:2]), "name", 9).tolist() == [3, 0]
    assert words.strings(batch([0, 1, 2], whole), "name", 9).tolist() == [3, 0, 1]


def test_slice_of_a_batch_has_its_own_rows() -> None:
    words = _Words(Interned())  # type: ignore[arg-type]
    whole = batch([0, None, 1, 0, 1, None, 1], pa.array(["a", "b"]))
    assert words.strings(whole[2:6], "name", 9).tolist() == [1, 0, 1, 9]


@pytest.mark.parametrize("index", [2, -1])
def test_index_out_of_range_is_refused(index: int) -> None:
    words = _Words(Interned())  # type: ignore[arg-type]
    with pytest.raises((WrongRowError, pa.ArrowInvalid)):
        words.strings(batch([0, index], pa.array(["a", "b"])), "name", 9)


def test_dictionary_with_a_null_or_invalid_utf8_is_refused() -> None:
    words = _Words(Interned())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null in a dictionary"):
        words.strings(batch([0], pa.array(["a", None])), "name", 9)
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "i4")), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(ValueError, match="UTF8"):
        words.strings(batch([0], broken), "name", 9)
