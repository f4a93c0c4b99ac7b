"""All files of a gate judged, in this process or on workers."""

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
    judge,
    let_go,
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
# From so many files, or bytes of them, on workers are worth their start: a quarter of a second.
MANY_FILES, MANY_BYTES = 32, 64 << 20
UNREAD = "was not read"


def gate_files(
    some: Sequence[GateFile], judging: Judging, workers: Workers, *, apart: bool = False
) -> list[GatedFile]:
    """What became of each, in their order; what is wrong with one is said on stderr. With `apart`
    they are of several dumps, and each is held against others of the same dump only.

    Raises UsageError for standard input where there are workers, which cannot read it.
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
            if judged.words and about not in blamed:  # of a base of many files once
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
    """This process, as an executor: one after the other, and an error is an error."""

    workers = 1

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        for index, item in enumerate(items):
            yield Done(index, work(item), "ok", "")

    def close(self) -> None:
        let_go()


def _is_here(files: Sequence[str], base: str | None, workers: Workers) -> bool:
    if "-" in (*files, base):
        if workers.asked:
            raise UsageError("workers cannot read standard input: name a file")
        return True
    return not workers.asked and not _are_many(files)


def _are_many(files: Sequence[str]) -> bool:
    if len(files) < 2:
        return False
    sizes = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    return len(files) >= MANY_FILES or sum(sizes) >= MANY_BYTES


def _anywhere(path: str) -> str:
    """The same file for a worker in another folder."""
    return path if path in ("", "-") or is_url(path) else os.path.abspath(path)


def _judged(done: Done[Judged], path: str) -> Judged:
    if done.result is not None:
        return done.result
    words = done.error
    return Judged(GatedFile(file=path, error=words, exit_code=NOT_READABLE), path, words)
