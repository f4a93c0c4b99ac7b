"""Run items one by one in this process: for systems without a pool, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memreplay.workers.running import Done, R, T, attempt, heard, packed_item


class Serial:
    """An executor without workers.

    Pickles items and results as the others do, so they behave the same. A crash ends this process,
    and memory isn't limited.
    """

    workers = 1

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """Yield one `Done` per item, in order."""
        for index, item in enumerate(items):
            sent = packed_item(index, item)
            yield sent if isinstance(sent, Done) else heard(index, attempt(work, sent))

    def close(self) -> None:
        """Do nothing: there are no workers."""
