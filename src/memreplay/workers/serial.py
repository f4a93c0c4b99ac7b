"""Items one after another in this process: for systems without a pool, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memreplay.workers.running import Done, R, T, attempt, heard, packed_item


class Serial:
    """An executor without workers.

    Items and results are packed as for any other, so that they mean the same. A crash takes this
    process, and memory has no bound: it is for systems without a pool, and what others are held
    against.
    """

    workers = 1

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """One `Done` an item, in order."""
        for index, item in enumerate(items):
            sent = packed_item(index, item)
            yield sent if isinstance(sent, Done) else heard(index, attempt(work, sent))

    def close(self) -> None:
        """Nothing is to be ended."""
