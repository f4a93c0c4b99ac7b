"""Reading measurements of workspaces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.workspaces import Measured, read_measured
from memreplay.errors import UsageError

HEADER = {"torch": "2.11.0+cu130", "cudnn": 91900, "device": "NVIDIA H200", "sm": [9, 0]}
CONVOLUTION = {
    "op": "Conv2d",
    "x": [32, 3, 224, 224],
    "w": [64, 3, 7, 7],
    "stride": [2, 2],
    "padding": [3, 3],
    "dilation": [1, 1],
    "dtype": "float16",
    "channels_last": True,
}
KEY = "float16 last x=32,3,224,224 w=64,3,7,7 stride=2,2 padding=3,3 dilation=1,1"
NETWORK = {
    "op": "LSTM",
    "input": 64,
    "hidden": 128,
    "layers": 2,
    "bidirectional": True,
    "batch": 8,
    "time": 50,
    "dtype": "float32",
    "dropout": 0.2,
}
NETWORK_KEY = "LSTM float32 input=64 hidden=128 layers=2 directions=2 dropout=1 batch=8 time=50"


def read(folder: Path, *rows: dict[str, Any]) -> Measured:
    path = folder / "measured.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return read_measured(str(path))


def test_each_pass_has_a_line(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER, CONVOLUTION | {"forward": 5, "input": 6, "weights": 7})
    assert found.where == "NVIDIA H200, torch 2.11.0+cu130, cudnn 91900"
    assert found.lines == {
        f"convolution forward {KEY}": (5, 0),
        f"convolution input {KEY}": (6, 0),
        f"convolution weights {KEY}": (7, 0),
    }
    assert found.table().splitlines()[0] == f"convolution forward {KEY}\t5 0"


def test_some_passes_may_be_missing(tmp_path: Path) -> None:
    found = read(tmp_path, CONVOLUTION | {"forward": 0})
    assert found == Measured({f"convolution forward {KEY}": (0, 0)}, "")


@pytest.mark.parametrize(
    "forward, backward, expected",
    [
        ([9], [8, 7], {"forward": 9, "input": 8, "weights": 7}),
        ([], [], {"forward": 0, "input": 0, "weights": 0}),
        ([], [131], {"forward": 0, "input": 131, "weights": 0}),
        ([], [999999], {"forward": 0, "input": 0, "weights": 999999}),
        # with copies that PyTorch made
        ([9, 9], [1, 2, 3, 4], {}),
    ],
)
def test_what_a_call_allocated_is_assigned_to_passes(
    tmp_path: Path, forward: list[int], backward: list[int], expected: dict[str, int]
) -> None:
    raw = {"forward_temporary": forward, "backward_temporary": backward}
    found = read(tmp_path, CONVOLUTION | raw)
    assert found.lines == {f"convolution {name} {KEY}": (n, 0) for name, n in expected.items()}


def test_transposed_convolution_runs_the_other_passes(tmp_path: Path) -> None:
    row = CONVOLUTION | {"op": "ConvTranspose2d", "x": [32, 64, 112, 112]}
    found = read(tmp_path, row | {"y": [32, 3, 224, 224], "forward": 1, "input": 2, "weights": 3})
    assert found.lines == {
        f"convolution input {KEY}": (1, 0),
        f"convolution forward {KEY}": (2, 0),
        f"convolution weights {KEY}": (3, 0),
    }


def test_pytorch_adds_a_dimension_to_a_convolution_with_one(tmp_path: Path) -> None:
    row = {"op": "Conv1d", "x": [2, 3, 40], "w": [8, 3, 5], "stride": [2], "padding": [1]}
    found = read(tmp_path, CONVOLUTION | row | {"dilation": [3], "forward": 4})
    key = "float16 last x=2,3,1,40 w=8,3,1,5 stride=1,2 padding=0,1 dilation=1,3"
    assert found.lines == {f"convolution forward {key}": (4, 0)}


def test_network_has_a_workspace_and_reserve_space(tmp_path: Path) -> None:
    found = read(tmp_path, NETWORK | {"workspace": 5, "reserve": 6})
    assert found.lines == {NETWORK_KEY: (5, 6)}
    raw = {"forward_temporary": [8, 900, 30], "forward_kept": [70, 80]}
    assert read(tmp_path, NETWORK | raw).lines == {NETWORK_KEY: (900, 80)}


def test_file_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "measured.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(NETWORK | {"workspace": 5, "reserve": 6}).encode()))
    assert read_measured(str(path)).lines == {NETWORK_KEY: (5, 6)}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"op": "Linear"}, "op 'Linear' isn't one of"),
        ({"dtype": "int8"}, "dtype 'int8' isn't one of"),
        ({"stride": [1]}, "stride needs 2 numbers"),
        ({"x": "32"}, "x is not a list of integers"),
        ({"forward": -1}, "-1 is not a number of bytes"),
        ({"forward": True}, "True is not a number of bytes"),
    ],
)
def test_unusable_line_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match="line 2: not a measured workspace: ") as raised:
        read(tmp_path, HEADER, CONVOLUTION | {"forward": 1} | change)
    assert words in str(raised.value)


def test_missing_field_is_named(tmp_path: Path) -> None:
    row = {key: value for key, value in NETWORK.items() if key != "hidden"}
    with pytest.raises(UsageError, match="line 1: not a measured workspace: it has no 'hidden'"):
        read(tmp_path, row | {"workspace": 1, "reserve": 1})


@pytest.mark.parametrize(
    "data, words",
    [
        (b"{", "line 1: not JSON"),
        (b"[1]", "line 1: not a JSON object"),
        (b"\xff", "can't be read"),
        (b"\x1f\x8b", "can't be read"),
    ],
)
def test_unreadable_file_is_an_error(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "measured.jsonl"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        read_measured(str(path))


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read: No such file"):
        read_measured(str(tmp_path / "none.jsonl"))
