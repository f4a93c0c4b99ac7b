"""Files in other formats."""

from __future__ import annotations

import gzip
import pickle
from typing import Any

from memreplay import SnapshotError, TruncatedError
from tests import bad_files, build
from tests.conformance.cases import EVENT, Reject, trace
from tests.pickle_ops import Ops

_SOUND = build.dump(trace(EVENT))
_PAGE = bad_files.viewer_page(_SOUND)
_PACKED = gzip.compress(_SOUND)


def _holds(value: Any, what: str) -> Reject:
    return Reject(
        pickle.dumps(value, 4), SnapshotError, f"not a memory snapshot: it contains {what} "
    )


CASES: dict[str, Reject] = {
    "empty": Reject(b"", SnapshotError, "the file is empty"),
    "text": Reject(b"step 1: loss 2.5\n", SnapshotError, r"\(byte \d+"),
    "None": _holds(None, "None"),
    "True": _holds(True, "a bool"),
    "a number": _holds(7, "a number"),
    "a float": _holds(7.5, "a number"),
    "a large unsigned number": _holds(2**64 - 1, "a number"),
    "a text": _holds("segments", "a string"),
    "bytes": _holds(b"segments", "bytes, a tuple or a set"),
    "a set": _holds(set(), "bytes, a tuple or a set"),
    "a tuple": _holds((1.5, 2, 3), "bytes, a tuple or a set"),
    "two snapshots": Reject(
        build.dump({"before": trace(EVENT), "after": trace(EVENT)}),
        SnapshotError,
        "2 snapshots in one file: 1 'before', 2 'after'",
    ),
    "two pickles": Reject(_SOUND + _SOUND, SnapshotError, "2 snapshots in one file"),
    "a pair": _holds((1, 2), "a pair of numbers"),
    "torch.save of old": Reject(
        bad_files.legacy_torch_save(), SnapshotError, r"a file written by an old torch.save"
    ),
    "torch.save": Reject(
        b"PK\x03\x04" + bytes(40), SnapshotError, r"a zip archive, as torch\.save writes .byte 0"
    ),
    "PNG": Reject(b"\x89PNG\r\n\x1a\n" + bytes(40), SnapshotError, "a PNG picture"),
    "an HTML page": Reject(
        b"<!DOCTYPE html><html>", SnapshotError, "an HTML page without a snapshot in it"
    ),
    "a page, cut off": Reject(
        _PAGE[: _PAGE.index(b"gAS") + 30], TruncatedError, "the page ends inside its snapshot"
    ),
    "a page of bad base64": Reject(
        _PAGE.replace(b"gAS", b"g.S"), SnapshotError, "damaged base64 in the page"
    ),
    "gzip, cut off": Reject(_PACKED[: len(_PACKED) // 2], TruncatedError, "truncated gzip stream"),
    "gzip, of nothing": Reject(gzip.compress(b""), TruncatedError, "need 1 byte, 0 left"),
    "gzip, a wrong checksum": Reject(
        _PACKED[:-8] + bytes(4) + _PACKED[-4:], SnapshotError, "damaged gzip stream"
    ),
    "gzip, no deflate": Reject(
        _PACKED[:10] + b"\xff" * 40, SnapshotError, "damaged gzip stream after"
    ),
    "a dict of weights": Reject(
        build.dump({"model": {"weight": [1.0]}}), SnapshotError, "neither 'segments' nor"
    ),
    "an empty dict": Reject(build.dump({}), SnapshotError, "neither 'segments' nor"),
    "a list of numbers": Reject(
        build.dump([1, 2]), SnapshotError, "'segments' has a value of the wrong type"
    ),
    "an unused snapshot under another dict": Reject(
        bytes(
            Ops()
            .proto(4)
            .empty_dict()
            .string("segments")
            .empty_list()
            .setitem()
            .op("POP")
            .empty_dict()
            .stop()
        ),
        SnapshotError,
        "it contains something else",
    ),
}
