"""Reads a remote file forward, by several requests at once that are made again where they fail."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from memreplay.io.stores import RemoteFile, ReplacedError
from memreplay.io.urls import StoreError, may_pass, never_reached, status_of, words_of

if TYPE_CHECKING:
    from concurrent.futures import Future

RANGE = 8 << 20  # bytes of a request
PARALLEL = 4  # requests at once; with the range that is being read, 40 MiB at the most
STALL_S = 30.0  # without a byte: the request is given up, and made again
LEAST = 1 << 10  # bytes in that time; a server that sends fewer stalls, too
TRIES = 6  # in a row that bring (next to) nothing
ENOUGH = 64 << 10  # bytes that a try must bring to count as one that did
FIRST_WAIT_S = 0.5  # before the second try; twice as long before each other one
LONGEST_WAIT_S = 10.0
LONGEST_ASKED_S = 30.0  # that a server may have us wait (Retry-After)
AGAIN = "run it again later, or copy the file to this machine first"

T = TypeVar("T")


class RangeReader:
    """The bytes of a remote file, as a file object for one thread.

    The requests run on `loop`, fsspec's thread. At most `PARALLEL` ranges of `RANGE` bytes are
    asked for at once, and one more is held, that which is being read. Reading raises StoreError
    where the store gives up or the file was replaced, and then every time.
    """

    def __init__(self, file: RemoteFile, loop: asyncio.AbstractEventLoop) -> None:
        self.size = file.size
        self._file = file
        self._loop = loop
        self._at = 0
        self._block = memoryview(b"")  # from _at on
        self._ahead: deque[Future[bytearray | Exception]] = deque()
        self._asked = 0  # where the next request begins

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        at = max(0, base + offset)
        if self._at <= at < self._at + len(self._block):
            self._block = self._block[at - self._at :]
        elif at != self._at:
            self._forget()
            self._asked = at
        self._at = at
        return at

    def readinto(self, buffer: memoryview) -> int:
        if not self._block and not self._next():
            return 0
        n = min(len(buffer), len(self._block))
        buffer[:n] = self._block[:n]
        self._block = self._block[n:]
        self._at += n
        return n

    def close(self) -> None:
        self._forget()

    def _next(self) -> bool:
        """Takes the next range, and asks for those after it; False at the end."""
        self._block = memoryview(b"")  # let go before the next is there
        while len(self._ahead) < PARALLEL and self._asked < self.size:
            stop = min(self._asked + RANGE, self.size)
            got = asyncio.run_coroutine_threadsafe(self._ended(self._asked, stop), self._loop)
            self._ahead.append(got)
            self._asked = stop
        if not self._ahead:
            return False
        found = self._ahead[0].result()
        if isinstance(found, Exception):
            raise found  # it stays the first, so that it is raised every time
        self._block = memoryview(found)
        self._ahead.popleft()
        return True

    def _forget(self) -> None:
        for request in self._ahead:
            request.cancel()
        self._ahead.clear()
        self._block = memoryview(b"")

    async def _ended(self, start: int, stop: int) -> bytearray | Exception:
        """As `_range`, whose error is no exception of the task: of one that nobody asks for any
        more asyncio would show where it was raised."""
        try:
            return await self._range(start, stop)
        except Exception as error:
            return error

    async def _range(self, start: int, stop: int) -> bytearray:
        out = bytearray(stop - start)
        view = memoryview(out)
        tries = Tries()
        done = 0
        while done < len(out):
            before = done
            pace = Pace()
            error: Exception | None = None
            pieces = self._file.pieces(start + done, stop).__aiter__()
            try:
                while done < len(out):
                    began = time.monotonic()
                    piece = await asyncio.wait_for(pieces.__anext__(), STALL_S)
                    pace.took(len(piece), time.monotonic() - began)
                    n = min(len(piece), len(out) - done)
                    view[done : done + n] = piece[:n]
                    done += n
            except StopAsyncIteration:
                error = EOFError("the connection was closed early")
            except Exception as failed:
                error = failed
            finally:
                await _closed(pieces)
            if error is not None and done < len(out):
                where = f"at byte {start + done} of {self.size}"
                await tries.wait(error, where, brought=done - before)
        return out


class TooSlowError(TimeoutError):
    """A server that sends next to nothing."""


class Pace:
    """How fast bytes come, over STALL_S of waiting for them."""

    def __init__(self) -> None:
        self._bytes = 0
        self._waited_s = 0.0

    def took(self, n: int, seconds: float) -> None:
        """So many came after so long. Raises TooSlowError where they are too few."""
        self._bytes += n
        self._waited_s += seconds
        if self._waited_s >= STALL_S:
            if self._bytes < LEAST:
                raise TooSlowError
            self._bytes, self._waited_s = 0, 0.0


class Tries:
    """How often a request was made in vain, and how long to wait before it is made again."""

    def __init__(self) -> None:
        self._failed = 0

    async def wait(self, error: Exception, where: str, brought: int = 0) -> None:
        """Waits until it is time to try again; raises StoreError if it is not worth it."""
        place = f" {where}" if where else ""
        if where and (what := _changed(error)):
            raise StoreError(
                f"the file was {what} while it was read,{place}; run it again"
            ) from error
        if not may_pass(error):
            raise StoreError(f"{words_of(error)},{place}") from error
        if brought >= ENOUGH:
            self._failed = 0
        self._failed += 1
        if self._failed >= TRIES:
            raise StoreError(
                f"gave up{place} after {TRIES} tries: {why(error)}; {AGAIN}"
            ) from error
        backoff = min(FIRST_WAIT_S * 2 ** (self._failed - 1), LONGEST_WAIT_S)
        # Not all of a fleet at the same moment.
        await asyncio.sleep(max(backoff * random.uniform(0.5, 1.0), _asked_wait(error)))


async def persisted(action: Callable[[], Awaitable[T]], limit_s: float | None = None) -> T:
    """What `action` gives, which is tried again as a range is; `limit_s` (STALL_S) of one try.

    Errors that will not pass are raised as they are, and so is that of a host that was not reached:
    more likely its name is wrong.
    """
    tries = Tries()
    while True:
        try:
            return await asyncio.wait_for(action(), limit_s or STALL_S)
        except Exception as error:  # noqa: PERF203 - it is what the loop is for
            if not may_pass(error) or never_reached(error):
                raise
            await tries.wait(error, "")


async def _closed(pieces: Any) -> None:
    try:
        await pieces.aclose()
    except Exception:  # of a connection that is given up
        return


def _changed(error: Exception) -> str:
    """What was done to a file that could be read before; empty where nothing was."""
    if isinstance(error, FileNotFoundError):
        return "deleted"
    is_short = status_of(error) == 416  # it ends before what is asked for
    return "replaced" if is_short or isinstance(error, ReplacedError) else ""


def why(error: Exception) -> str:
    """What a request ended in."""
    if isinstance(error, TooSlowError):
        return f"fewer than {LEAST:,} bytes in {STALL_S:.0f} s"
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"no data for {STALL_S:.0f} s"
    return words_of(error)


def _asked_wait(error: Exception) -> float:
    """The seconds that a server says to wait; 0 where it does not."""
    headers = getattr(error, "headers", None) or {}
    said = str(headers.get("Retry-After", ""))
    return min(float(said), LONGEST_ASKED_S) if said.isdigit() else 0.0
