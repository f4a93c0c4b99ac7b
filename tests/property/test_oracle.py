"""Random snapshots, written by every writer, match the oracle."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from tests import build
from tests.compare import assert_columns, assert_like_oracle
from tests.strategies import traces

WRITERS: dict[str, Any] = {
    "protocol 0": lambda s: build.dump(s, 0),
    "protocol 1": lambda s: build.dump(s, 1),
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 3": lambda s: build.dump(s, 3),
    "protocol 4": lambda s: build.dump(s, 4),
    "protocol 5": lambda s: build.dump(s, 5),
    "cpp": build.dump_cpp,
    "cpp, all memoised": lambda s: build.dump_cpp(s, memoise_all=True),
    "cpp, tagged": lambda s: build.dump_cpp(s, tagged=True),
    "cpp, tagged, all memoised": lambda s: build.dump_cpp(s, memoise_all=True, tagged=True),
    "not memoised": build.dump_optimized,
    "frames lists seen before": lambda s: build.dump(build.frames_seen_before(s), 4),
    "frames lists seen before, protocol 0": lambda s: build.dump(build.frames_seen_before(s), 0),
    "frames seen before": lambda s: build.dump(build.frame_seen_before(s), 2),
    "frames are tuples": lambda s: build.dump(build.frames_as_tuples(s), 4),
    "frames are tuples, protocol 0": lambda s: build.dump(build.frames_as_tuples(s), 0),
    "nothing shared": build.dump_unshared,
    "framed anywhere": lambda s: build.reframe(build.dump(s, 4), 37),
    "keys shuffled": lambda s: build.dump(build.shuffle_keys(s, random.Random(1)), 4),
    "json": lambda s: json.dumps(s).encode(),
    "json, pretty": lambda s: json.dumps(s, indent=1, ensure_ascii=False).encode(),
    "gzip": lambda s: gzip.compress(build.dump(s, 4)),
}


@pytest.mark.parametrize("writer", WRITERS)
@given(snapshot=traces())
def test_everything_matches_the_oracle(writer: str, snapshot: Any) -> None:
    assert_like_oracle(WRITERS[writer](snapshot), snapshot)


@given(snapshot=traces(max_devices=2, max_events=120))
def test_long_traces_match_the_oracle(snapshot: Any) -> None:
    assert_like_oracle(build.dump(snapshot, 4), snapshot)


class Dribble(io.RawIOBase):
    """A stream that returns a few bytes at a time."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = memoryview(data)
        self._sizes = sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = min(len(buffer), self._sizes[0], len(self._data))
        self._sizes.append(self._sizes.pop(0))
        buffer[:n] = self._data[:n]
        self._data = self._data[n:]
        return n


@given(snapshot=traces(max_devices=2), sizes=st.lists(st.integers(1, 99), min_size=1, max_size=5))
def test_streams_may_return_few_bytes_at_a_time(snapshot: Any, sizes: list[int]) -> None:
    assert_columns(mr.open(cast(BinaryIO, Dribble(build.dump(snapshot, 4), sizes))), snapshot)
