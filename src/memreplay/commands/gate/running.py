"""Judge all files of a gate, in this process or on workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from memreplay.commands.gate.judging import (
    ApartTask,
    Judged,
    JudgeTask,
    Judging,
    Member,
    close_bases,
    judge,
    tell_apart,
)
from memreplay.commands.shared.errors import NOT_READABLE, complain, name_of
from memreplay.commands.shared.executing import Workers, executor_of
from memreplay.commands.shared.progress import counted
from memreplay.errors import UsageError
from memreplay.gating.result import GatedFile
from memreplay.gating.spread import Peak, with_spread
from memreplay.io.urls import is_url
from memreplay.workers.running import Done

if TYPE_CHECKING:
    from memreplay.commands.gate.files import GateFile
    from memreplay.gating.result import Cause

R = TypeVar("R")
T = TypeVar("T")
# Minimum number of files, and of bytes, for which workers pay off. Starting workers takes a quarter
# of a second.
MANY_FILES, MANY_BYTES = 32, 64 << 20
UNREAD = "not read"


def gate_files(
    some: Sequence[GateFile], judging: Judging, workers: Workers, *, apart: bool = False
) -> list[GatedFile]:
    """Return each file's result in order, printing errors to stderr.

    `apart`: the files are from several dumps, and each is only compared within its dump. Raises
    UsageError for standard input with workers, because they can't read it.
    """
    files = [one.path for one in some]
    here = _is_here(files, judging.base, workers)
    judging = replace(judging, shows=here)
    paths = [_anywhere(file) for file in files]
    blamed: set[tuple[str, str]] = set()
    found = [GatedFile(file=name_of(file), error=UNREAD, exit_code=NOT_READABLE) for file in files]
    with closing(_Here() if here else executor_of(workers, len(files))) as executor:
        tasks = [
            JudgeTask(path, judging, one.rank, one.dump, len(some) == 1)
            for path, one in zip(paths, some, strict=True)
        ]
        done = executor.run(judge, tasks)
        for one in done if here else counted(done, len(tasks), "files"):
            judged = _judged(one, paths[one.index])
            own = some[one.index]
            found[one.index] = replace(
                judged.file, file=name_of(own.path), rank=own.rank, dump=own.dump or None
            )
            about = judged.blamed, judged.words
            # Report a broken base only once, even if many files share it.
            if judged.words and about not in blamed:
                blamed.add(about)
                name = files[one.index] if judged.blamed == paths[one.index] else judged.blamed
                complain(f"{name_of(name)}: {judged.words}")

        def explain(low: Peak, high: Peak) -> tuple[Cause, ...]:
            typical, highest = (Member(paths[one.file], one.finding.device) for one in (low, high))
            task = ApartTask(typical, highest, high.finding, judging)
            (told,) = executor.run(tell_apart, [task])
            return told.result or ()

        return with_spread(found, explain, apart=apart)


class _Here:
    """An executor that runs tasks in this process, one by one. Errors propagate."""

    workers = 1

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        for index, item in enumerate(items):
            yield Done(index, work(item), "ok", "")

    def close(self) -> None:
        close_bases()


def _is_here(files: Sequence[str], base: str | None, workers: Workers) -> bool:
    if "-" in (*files, base):
        if workers.asked:
            raise UsageError("workers can't read standard input; give a file")
        return True
    return not workers.asked and not _are_many(files)


def _are_many(files: Sequence[str]) -> bool:
    if len(files) < 2:
        return False
    sizes = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    return len(files) >= MANY_FILES or sum(sizes) >= MANY_BYTES


def _anywhere(path: str) -> str:
    """Return an absolute path, because workers may run in other folders."""
    return path if path in ("", "-") or is_url(path) else os.path.abspath(path)


def _judged(done: Done[Judged], path: str) -> Judged:
    if done.result is not None:
        return done.result
    words = done.error
    return Judged(GatedFile(file=path, error=words, exit_code=NOT_READABLE), path, words)
