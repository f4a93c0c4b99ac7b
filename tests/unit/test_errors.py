"""errors: one clear line each, with the place and the remedy; an exit code a kind."""

from __future__ import annotations

import pytest

import memreplay as mr


@pytest.mark.parametrize(
    "error, line",
    [
        (mr.SnapshotError("bad"), "bad"),
        (mr.SnapshotError("bad", offset=0), "bad (byte 0)"),
        (mr.SnapshotError("bad", opcode="MARK"), "bad (MARK)"),
        (mr.SnapshotError("bad", hint="mend it"), "bad; mend it"),
        (
            mr.TruncatedError("cut", offset=1048573, opcode="BINUNICODE8", hint="dump again"),
            "cut (byte 1048573, BINUNICODE8); dump again",
        ),
    ],
)
def test_the_line(error: mr.SnapshotError, line: str) -> None:
    assert str(error) == line
    assert error.args == (error.message,)


@pytest.mark.parametrize(
    "kind, parent, code",
    [
        (mr.MemreplayError, Exception, 2),
        (mr.UsageError, mr.MemreplayError, 2),
        (mr.NothingToTellError, mr.UsageError, 5),
        (mr.MissingExtraError, mr.MemreplayError, 2),
        (mr.SnapshotError, mr.MemreplayError, 3),
        (mr.UnsafePickleError, mr.SnapshotError, 3),
        (mr.LimitError, mr.SnapshotError, 3),
        (mr.TruncatedError, mr.SnapshotError, 4),
    ],
)
def test_kinds_and_exit_codes(
    kind: type[mr.MemreplayError], parent: type[Exception], code: int
) -> None:
    assert issubclass(kind, parent)
    assert kind.exit_code == code
