"""Read measurements of cuDNN's workspaces, and write them as gpu/measured.c reads them.

Each line of the file is a JSON object (docs/dryrun.md). One with `op` is a configuration that was
measured; one without says on which card, and with which versions.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memreplay.errors import UsageError

_TYPES = ("float32", "float16", "bfloat16")
_NETWORKS = ("RNN", "LSTM", "GRU")
_CONVOLUTIONS = tuple(f"Conv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3))
# A backward pass that took only one workspace probably took it for the weights' gradients, unless
# it's tiny.
_TINY = 4096


class Measured(NamedTuple):
    """Measured workspaces."""

    lines: Mapping[str, tuple[int, int]]
    """Bytes of workspace and reserve space, by key."""
    where: str
    """The card and the versions; "" if unknown."""

    def table(self) -> str:
        """Return the text that gpu/measured.c reads."""
        return "".join(f"{key}\t{one} {other}\n" for key, (one, other) in self.lines.items())


def read_measured(path: str) -> Measured:
    """Read a file of measurements; it may be compressed with gzip.

    Raises UsageError if that's impossible.
    """
    lines: dict[str, tuple[int, int]] = {}
    where = ""
    for number, row in _rows(path):
        if "op" not in row:
            where = _where(row)
            continue
        try:
            lines.update(_network(row) if row["op"] in _NETWORKS else _convolution(row))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise UsageError(
                f"{path}, line {number}: not a measured workspace: {what}"
                " (memreplay help dryrun describes the format)"
            ) from None
    return Measured(lines, where)


def _rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path} can't be read: {words}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise UsageError(f"{path}, line {number}: not a JSON object")
        yield number, row


def _where(row: Mapping[str, Any]) -> str:
    words = [str(row[key]) for key in ("device",) if key in row]
    words += [f"{key} {row[key]}" for key in ("torch", "cudnn") if key in row]
    return ", ".join(words)


def _bytes(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of bytes")
    return value


def _list(row: Mapping[str, Any], name: str, n: int | None = None) -> list[int]:
    found = row[name]
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        raise ValueError(f"{name} is not a list of integers")
    if n is not None and len(found) != n:
        raise ValueError(f"{name} needs {n} numbers")
    return found


def _type(row: Mapping[str, Any]) -> str:
    found: str = row["dtype"]
    if found not in _TYPES:
        raise ValueError(f"dtype {found!r} isn't one of {', '.join(_TYPES)}")
    return found


def _convolution(row: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return a convolution's passes. A transposed one runs the other's passes, with its input and
    output swapped.
    """
    if row["op"] not in _CONVOLUTIONS:
        raise ValueError(f"op {row['op']!r} isn't one of {', '.join(_CONVOLUTIONS + _NETWORKS)}")
    transposed = "Transpose" in row["op"]
    x = _list(row, "y" if transposed else "x")
    spatial = len(x) - 2
    numbers = {
        "x": x,
        "w": _list(row, "w", len(x)),
        **{name: _list(row, name, spatial) for name in ("stride", "padding", "dilation")},
    }
    if spatial == 1:  # PyTorch adds a dimension before it calls cuDNN
        numbers = {
            "x": [*x[:2], 1, x[2]],
            "w": [*numbers["w"][:2], 1, numbers["w"][2]],
            "stride": [1, *numbers["stride"]],
            "padding": [0, *numbers["padding"]],
            "dilation": [1, *numbers["dilation"]],
        }
    layout = "last" if row["channels_last"] else "first"
    end = "".join(f" {name}={_joined(found)}" for name, found in numbers.items())
    names = {"forward": "forward", "input": "input", "weights": "weights"}
    if transposed:
        names |= {"forward": "input", "input": "forward"}
    return {
        f"convolution {names[name]} {_type(row)} {layout}{end}": (size, 0)
        for name, size in _passes(row).items()
    }


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _passes(row: Mapping[str, Any]) -> dict[str, int]:
    found = {name: _bytes(row[name]) for name in ("forward", "input", "weights") if name in row}
    if found:
        return found
    forward, backward = _list(row, "forward_temporary"), _list(row, "backward_temporary")
    if len(forward) <= 1:
        found["forward"] = sum(forward)
    # More allocations include PyTorch's own copies of operands.
    if len(backward) == 2:
        found |= {"input": backward[0], "weights": backward[1]}
    elif len(backward) <= 1:
        is_tiny = sum(backward) < _TINY
        found["input"] = sum(backward) if is_tiny else 0
        found["weights"] = 0 if is_tiny else sum(backward)
    return {name: _bytes(size) for name, size in found.items()}


def _network(row: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    if "workspace" in row:
        sizes = _bytes(row["workspace"]), _bytes(row["reserve"])
    else:
        # The workspace is the largest temporary allocation. The reserve space is the last one
        # that outlives the call.
        forward = _list(row, "forward_temporary")
        sizes = _bytes(max(forward)), _bytes(_list(row, "forward_kept")[-1])
    numbers = {
        "input": row["input"],
        "hidden": row["hidden"],
        "layers": row["layers"],
        "directions": 1 + bool(row["bidirectional"]),
        "dropout": int(row["dropout"] > 0),
        "batch": row["batch"],
        "time": row["time"],
    }
    end = "".join(f" {name}={_bytes(number)}" for name, number in numbers.items())
    return {f"{row['op']} {_type(row)}{end}": sizes}
