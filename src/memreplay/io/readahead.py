"""Reads on, on a thread of its own, while what was read is parsed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queue import SimpleQueue
    from threading import Thread

Fill = Callable[[memoryview], int]  # as readinto: fills a part, says how much, 0 at the end
# A block, where the bytes in it begin and end, and what reading ended in after them.
Block = tuple[bytearray, int, int, "BaseException | None"]

SIZE = 512 << 10  # bytes of input in a block
ROOM = 64 << 10  # free in front of them, for what the parser has left over of the block before
BLOCKS = 4  # the parser's, the one before (of which it still copies), and two to fill
GRACE_S = 0.04  # how long an interrupted command waits for a read that does not end


def several_cpus() -> bool:
    """Whether two threads of this process can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def is_last(block: Block) -> bool:
    """Whether nothing follows: it is not full, or ends in an error."""
    data, _, stop, error = block
    return error is not None or stop < len(data)


class ReadAhead:
    """Blocks of input, read by `fill` on a thread; `close()` ends it.

    The thread begins with the first block asked for, so that a small file needs none. `fill` is
    called by one thread at a time. `ended` is called once, when nothing is read any more.
    """

    def __init__(self, fill: Fill, ended: Callable[[], None]) -> None:
        self._fill = fill
        self._ended = ended
        self._thread: Thread | None = None
        self._begun = False
        self._kept: list[bytearray] = []  # the last two that were handed out
        self._over = False  # the last block was handed out
        self._stopped = False
        self._through = False  # the thread is done
        self._left = False  # it is to call `ended`
        self._process = 0  # where it runs

    def next(self) -> Block:
        """The next block, until is_last() of one. It stays as it is until the call after next.

        Raises RuntimeError in a child that was forked meanwhile: the thread is not in it.
        """
        if not self._begun:
            self._begin()
        elif self._process != os.getpid():
            raise RuntimeError(
                "the process was forked while a snapshot was read: open it again in the child"
            )
        if len(self._kept) == 2:
            self._free.put(self._kept.pop(0))
        block = self._ready.get() if self._thread is not None else self._read()
        self._kept.append(block[0])
        self._over = is_last(block)
        return block

    def read_on(self) -> None:
        """Reads past what was handed out, or meets the end; raises what that ends in."""
        if self._thread is None:
            self._fill(memoryview(bytearray(1)))
        elif not self._over and (error := self.next()[3]) is not None:
            raise error

    def close(self) -> None:
        """Ends the thread, then calls `ended`.

        A read that goes on waiting is not waited for: `ended` is called when it comes back.
        """
        if self._thread is not None:
            self._stopped = True
            self._free.put(bytearray())
            self._thread.join(GRACE_S)
            with self._lock:
                self._left = not self._through
            if self._left:
                return
        self._ended()

    def _begin(self) -> None:
        # Imported here: a small file needs neither.
        from queue import SimpleQueue
        from threading import Lock, Thread

        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._ready: SimpleQueue[Block] = SimpleQueue()
        self._lock = Lock()
        for _ in range(BLOCKS):
            self._free.put(bytearray(ROOM + SIZE))
        self._begun = True
        self._process = os.getpid()
        # A daemon, as a read that hangs must not hold up the exit.
        thread = Thread(target=self._run, name="memreplay-readahead", daemon=True)
        # Where there may be no more threads, each block is read when it is asked for.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        over = False
        while not over:
            block = self._read()
            over = self._stopped or is_last(block)
            self._ready.put(block)
        with self._lock:
            self._through = True
        if self._left:
            self._ended()

    def _read(self) -> Block:
        block = self._free.get()
        stop = ROOM
        try:
            while stop < len(block) and not self._stopped:
                # Released afterwards: nobody may write there later.
                with memoryview(block) as whole, whole[stop:] as part:
                    n = self._fill(part)
                    if not 0 <= n <= len(part):
                        raise ValueError("readinto() gave an impossible length")
                if not n:
                    break
                stop += n
        except BaseException as error:
            return block, ROOM, stop, error
        return block, ROOM, stop, None
