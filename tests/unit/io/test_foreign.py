"""foreign: files in other formats are identified, and nothing else is mistaken for them."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.errors import SnapshotError, TruncatedError, UnsafePickleError
from memreplay.io.foreign import other_file_type
from tests import build
from tests.build import SnapshotBuilder
from tests.strategies import traces

NAMED = [
    (b"import torch\nprint(1)\n", "Python source"),
    (b"# Copyright\n\nfrom torch import nn\n", "Python source"),
    (b'"""A program."""\nimport os\n', "Python source"),
    (b"#!/usr/bin/env python3\nimport os\n", "Python source"),
    (b"#!/bin/sh\nset -e\n", "a script"),
    (b"class Model(nn.Module):\n", "Python source"),
    (b'<?xml version="1.0"?><svg>', "XML"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "a git-lfs pointer"),
    (b"/annex/objects/SHA256E-s12--ab.pkl\n", "a git-annex pointer"),
    (b"Traceback (most recent call last):\n  File", "a Python traceback"),
    (b"hello world, this is a log\nsecond line\n", "text ('hello world, this is a log')"),
    (b"loss,step\n1,2\n", "text ('loss,step')"),
    ("größte Zahl: 5\n".encode(), "text ('größte Zahl: 5')"),
    (b"x" * 600, f"text ('{'x' * 39}…')"),
    ("import torch\n".encode("utf-16"), "text in UTF-16"),
    (b'{"schemaVersion":1,"traceEvents":[]}', "a torch.profiler trace"),
    (b'[{"name":"a","ph":"X","ts":1}]', "a torch.profiler trace"),
    (b'{"schema": "memreplay.peak/1", "file": "x"}', "JSON output of memreplay"),
    (b'{"cells": [], "nbformat": 4}', "a Jupyter notebook"),
    (b"\x14" + bytes(7) + b'{"w":{"dtype":"F32"}}', "weights in safetensors"),
    (b"GGUF\x03\0\0\0", "a model in GGUF"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"SQLite format 3\0", "an SQLite database"),
]


@pytest.mark.parametrize("data", [b"((dp0\nVsegments\np1\n", b"(((l."])
def test_nested_text_pickle_is_not_text(data: bytes) -> None:
    assert other_file_type(data) is None


@pytest.mark.parametrize("salvage", [False, True])
def test_text_that_begins_like_a_pickle_is_text(salvage: bool) -> None:
    with pytest.raises(SnapshotError, match=r"but text \('\(lp0J.'\)"):
        mr.open(b"(lp0J.", salvage=salvage)


@pytest.mark.parametrize("data, what", NAMED)
def test_common_wrong_files_are_named(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError) as error:
        mr.open(data)
    assert error.value.exit_code == 3
    assert str(error.value).startswith(f"not a memory snapshot, but {what}")
    assert error.value.hint
    with pytest.raises(SnapshotError, match="not a memory snapshot, but "):
        mr.open(data, salvage=True)


@pytest.mark.parametrize(
    "data", [b"", b"abc", b'{"a": 1}', b"[1, 2]", bytes(range(128, 256)), b"\x80\x04\x95", b"i\n"]
)
def test_ambiguous_files_are_not_named(data: bytes) -> None:
    assert other_file_type(data) is None


@pytest.mark.parametrize(
    "value", [None, True, 5, -(2**70), 1.5, "a text", b"bytes", [], [1], {}, {"a": [1]}, (1, 2), ()]
)
def test_text_pickle_is_not_plain_text(value: Any) -> None:
    data = pickle.dumps(value, 0)
    found = other_file_type(data)
    assert found is None or len(data.strip()) < 4


@pytest.mark.parametrize("protocol", range(5))
def test_pickle_with_calls_is_named_as_a_pickle(protocol: int) -> None:
    for value in (os.system, Path("a")):
        with pytest.raises(UnsafePickleError, match="asks to load or call"):
            mr.open(pickle.dumps(value, protocol))
    with pytest.raises(UnsafePickleError):
        mr.open(b"cos\nsystem\n(S'import torch'\ntR.")
    with pytest.raises(UnsafePickleError):
        mr.open(b"(ios\nsystem\n.")


@given(traces(), st.integers(0, 5), st.integers(1, 600))
def test_no_snapshot_is_mistaken(snapshot: Any, protocol: int, cut: int) -> None:
    for data in (pickle.dumps(snapshot, protocol), json.dumps(snapshot).encode()):
        assert other_file_type(data[:512]) is None
        if cut < len(data):
            with pytest.raises(SnapshotError) as error:
                mr.open(data[:cut])
            assert isinstance(error.value, TruncatedError) or "but " not in str(error.value)


def test_wrapped_snapshot_is_recognized(tmp_path: Path) -> None:
    import gzip

    with pytest.raises(SnapshotError, match="but Python source"):
        mr.open(gzip.compress(b"import torch\n"))
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(SnapshotBuilder().alloc(512, 1).build()))
    assert mr.open(path).native.n_events == 1
