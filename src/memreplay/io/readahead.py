"""Read ahead on a thread while earlier blocks are parsed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queue import SimpleQueue
    from threading import Thread

# like readinto: fills the start of a buffer and returns the number of bytes; 0 at the end
Fill = Callable[[memoryview], int]
# A buffer, the start and end of the data in the buffer, and the error that ended reading after that
# data.
Block = tuple[bytearray, int, int, "BaseException | None"]

SIZE = 512 << 10  # bytes of input per block
# free bytes before the data, for the part of the previous block that the parser hasn't consumed
ROOM = 64 << 10
# the current block, the previous one (data may still be copied from it), and two to fill
BLOCKS = 4
GRACE_S = 0.04  # how many seconds close() waits for a blocked read


def several_cpus() -> bool:
    """Return whether two threads of this process can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def is_last(block: Block) -> bool:
    """Return whether this is the last block: it isn't full, or it ends with an error."""
    data, _, stop, error = block
    return error is not None or stop < len(data)


class ReadAhead:
    """Reads blocks on a thread, using `fill`, until `close()`.

    The thread is started when the first block is requested, so small files don't need one. Only one
    thread at a time calls `fill`; `ended` is called once, after the last read.
    """

    def __init__(self, fill: Fill, ended: Callable[[], None]) -> None:
        self._fill = fill
        self._ended = ended
        self._thread: Thread | None = None
        self._begun = False
        self._kept: list[bytearray] = []  # the last two blocks that were returned
        self._over = False  # whether the last block has been returned
        self._stopped = False
        self._through = False  # whether the thread has finished
        self._left = False  # whether the thread has to call `ended`
        self._process = 0  # process id, to detect forks

    def next(self) -> Block:
        """Return the next block.

        Must not be called after a block for which is_last() is true.

        A block stays valid until the call after the next one. Raises RuntimeError in a forked
        child, which has no copy of the thread.
        """
        if not self._begun:
            self._begin()
        elif self._process != os.getpid():
            raise RuntimeError(
                "the process was forked while a snapshot was being read; open it again in the child"
            )
        if len(self._kept) == 2:
            self._free.put(self._kept.pop(0))
        block = self._ready.get() if self._thread is not None else self._read()
        self._kept.append(block[0])
        self._over = is_last(block)
        return block

    def read_on(self) -> None:
        """Read from the last returned block to the end. Raises the error that ended reading, if
        any.
        """
        if self._thread is None:
            self._fill(memoryview(bytearray(1)))
        elif not self._over and (error := self.next()[3]) is not None:
            raise error

    def close(self) -> None:
        """Stop the thread, then call `ended`.

        If the thread is blocked in a read, the thread itself calls `ended` later.
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
        # Imported here, because small files don't need these modules.
        from queue import SimpleQueue
        from threading import Lock, Thread

        from memreplay.io.parallel import started

        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._ready: SimpleQueue[Block] = SimpleQueue()
        self._lock = Lock()
        for _ in range(BLOCKS):
            self._free.put(bytearray(ROOM + SIZE))
        self._begun = True
        self._process = os.getpid()
        # A daemon thread, so that a blocked read doesn't delay the exit.
        thread = Thread(target=self._run, name="memreplay-readahead", daemon=True)
        # If a thread can't be started, blocks are read on demand.
        if started(thread):
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
                # Release the views, so that nothing can write to the block later.
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
