"""Open the base of a comparison: a snapshot or a baseline, recognized by content."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, cast

from memreplay.commands.shared.folders import holds_files
from memreplay.commands.shared.progress import reading_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.analysis.comparing.sides import BaselineSide
    from memreplay.commands.shared.progress import Showing
    from memreplay.snapshot.snapshot import Snapshot

SUFFIXES = (".gz", ".zst", ".xz", ".bz2", ".zip")


def opened_base(
    file: str, reading: Reading, until: ExitStack, showing: Showing = reading_progress
) -> Snapshot | BaselineSide:
    """Open the base `file` (`-` is standard input). The base is closed when `until` is.

    Raises SnapshotError for other files, OSError if it can't be opened.
    """
    baseline, rest = _peeked(file, until)
    if baseline is not None:
        return baseline
    return until.enter_context(opened(file, reading, showing, rest))


def base_for(base: str, file: str, of_rank: Callable[[], str | None] = lambda: None) -> str:
    """Return a snapshot's base: `base` itself or, if that's a folder, the matching file in it.

    A file matches if it has the same name, possibly with .json as suffix, in the same subfolder
    (`iteration_10`) or in the folder itself. Otherwise, `of_rank` may find one. Raises UsageError
    if there is no base.
    """
    if not holds_files(base):
        return base
    parts = re.split(r"[/\\]", file)
    names: list[str] = []
    for name in dict.fromkeys(("/".join(parts[-2:]), parts[-1])):
        bare = name
        for suffix in SUFFIXES:
            bare = bare.removesuffix(suffix)
        bare = os.path.splitext(bare)[0]
        names = list(dict.fromkeys((f"{bare}.json", f"{name}.json", name)))
        for one in names:
            if os.path.isfile(os.path.join(base, one)):
                return os.path.join(base, one)
    found = of_rank()
    if found is None:
        raise UsageError(f"{base} has no base for it; looked for {' or '.join(names)}")
    return found


def is_baseline_file(path: str) -> bool:
    """Return whether a file is a baseline or another memreplay file."""
    from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, is_baseline

    with open(path, "rb") as file:
        return is_baseline(file.read(MAX_BYTES + 1))


def _peeked(file: str, until: ExitStack) -> tuple[BaselineSide | None, BinaryIO | None]:
    """Return the baseline if the file is one. Otherwise, if the file can't be opened again, return
    a stream to read in its place.
    """
    if "://" in file or os.path.isdir(file):
        return None, None
    if file == "-":
        source = cast("io.BufferedReader", sys.stdin.buffer)
    else:
        source = until.enter_context(open(file, "rb"))  # noqa: SIM115
    again = file != "-" and stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    peek = getattr(source, "peek", None)
    head = bytes(peek(1)) if peek is not None else b""
    if not head.lstrip().startswith(b"{"):
        return None, None if again else source
    from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, is_baseline, parse_baseline

    data = source.read(MAX_BYTES + 1)
    if is_baseline(data):
        from memreplay.analysis.comparing.sides import BaselineSide

        return BaselineSide(parse_baseline(data), file), None
    # The file is a snapshot in JSON.
    return None, None if again else cast("BinaryIO", _Joined(data, source, file))


class _Joined(io.RawIOBase):
    """The bytes already read from a pipe, followed by the rest."""

    def __init__(self, head: bytes, rest: BinaryIO, name: str) -> None:
        self.name = name
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, into: object) -> int:
        found = self._head.readinto(into)  # type: ignore[arg-type]
        return found or self._rest.readinto(into)  # type: ignore[attr-defined]
