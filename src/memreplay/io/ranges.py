"""Read a remote file sequentially, using concurrent range requests with retries."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from memreplay.io.stores import RemoteFile, ReplacedError
from memreplay.io.urls import StoreError, error_line, is_unreachable, may_pass, status_of

if TYPE_CHECKING:
    from concurrent.futures import Future

RANGE = 8 << 20  # bytes per request
# Number of concurrent requests; with the range that is being read, they take at most 40 MiB.
PARALLEL = 4
STALL_S = 30.0  # a request that returns fewer than LEAST bytes in this time is repeated
LEAST = 1 << 10  # if fewer bytes arrive within STALL_S, the server has stalled
TRIES = 6  # maximum number of failed tries in a row
ENOUGH = 64 << 10  # a try that returns fewer bytes counts as failed
FIRST_WAIT_S = 0.5  # wait before the second try; doubles with each further try
LONGEST_WAIT_S = 10.0
LONGEST_ASKED_S = 30.0  # maximum wait, even if the server's Retry-After is longer
AGAIN = "run it again later, or copy the file to this machine first"

T = TypeVar("T")


class RangeReader:
    """A remote file as a file object, for use by one thread.

    Requests run on `loop`, fsspec's thread: at most `PARALLEL` at once, for `RANGE` bytes each. The
    range that is being read is also held in memory. If the store fails or the file was replaced,
    reading raises StoreError, as does every later call.
    """

    def __init__(self, file: RemoteFile, loop: asyncio.AbstractEventLoop) -> None:
        self.size = file.size
        self._file = file
        self._loop = loop
        self._at = 0
        self._block = memoryview(b"")  # the data that starts at _at
        self._ahead: deque[Future[bytearray | Exception]] = deque()
        self._requested = 0  # where the next request starts

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
            self._requested = at
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
        """Take the next range, and request further ones. Returns False at the end."""
        self._block = memoryview(b"")  # release this block before the next block arrives
        while len(self._ahead) < PARALLEL and self._requested < self.size:
            stop = min(self._requested + RANGE, self.size)
            got = asyncio.run_coroutine_threadsafe(
                self._range_or_error(self._requested, stop), self._loop
            )
            self._ahead.append(got)
            self._requested = stop
        if not self._ahead:
            return False
        found = self._ahead[0].result()
        if isinstance(found, Exception):
            raise found  # the error stays first in the queue, so that every further call raises it
        self._block = memoryview(found)
        self._ahead.popleft()
        return True

    def _forget(self) -> None:
        for request in self._ahead:
            request.cancel()
        self._ahead.clear()
        self._block = memoryview(b"")

    async def _range_or_error(self, start: int, stop: int) -> bytearray | Exception:
        """Call `_range`, but return exceptions. If a task raised one and its result were never
        fetched, asyncio would log it.
        """
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
    """The server sends almost no data."""


class Pace:
    """Measures the download speed over STALL_S seconds of waiting."""

    def __init__(self) -> None:
        self._bytes = 0
        self._waited_s = 0.0

    def took(self, n: int, seconds: float) -> None:
        """Add `n` bytes received in `seconds`. Raises TooSlowError if they are too few."""
        self._bytes += n
        self._waited_s += seconds
        if self._waited_s >= STALL_S:
            if self._bytes < LEAST:
                raise TooSlowError
            self._bytes, self._waited_s = 0, 0.0


class Tries:
    """Counts failed tries, and computes the delay before the next one."""

    def __init__(self) -> None:
        self._failed = 0

    async def wait(self, error: Exception, where: str, brought: int = 0) -> None:
        """Sleep until the next try. Raises StoreError if there shouldn't be another try."""
        place = f" {where}" if where else ""
        if where and (what := _changed(error)):
            raise StoreError(
                f"the file was {what} while it was read,{place}; run it again"
            ) from error
        if not may_pass(error):
            raise StoreError(f"{error_line(error)},{place}") from error
        if brought >= ENOUGH:
            self._failed = 0
        self._failed += 1
        if self._failed >= TRIES:
            raise StoreError(
                f"gave up{place} after {TRIES} tries: {failure_reason(error)}; {AGAIN}"
            ) from error
        backoff = min(FIRST_WAIT_S * 2 ** (self._failed - 1), LONGEST_WAIT_S)
        # jitter, because otherwise all processes of a fleet would retry at the same time
        await asyncio.sleep(max(backoff * random.uniform(0.5, 1.0), _retry_after(error)))


async def with_retries(action: Callable[[], Awaitable[T]], limit_s: float | None = None) -> T:
    """Await `action()`, and repeat it after temporary errors.

    Each try may take `limit_s` seconds (default: STALL_S). Permanent errors are raised unchanged,
    as are errors about a host that can't be reached, because the host's name is probably wrong.
    """
    tries = Tries()
    while True:
        try:
            return await asyncio.wait_for(action(), limit_s or STALL_S)
        except Exception as error:  # noqa: PERF203 - it is what the loop is for
            if not may_pass(error) or is_unreachable(error):
                raise
            await tries.wait(error, "")


async def _closed(pieces: Any) -> None:
    try:
        await pieces.aclose()
    except Exception:  # errors from an abandoned connection
        return


def _changed(error: Exception) -> str:
    """Return what happened to a file that could be read before; "" if nothing happened."""
    if isinstance(error, FileNotFoundError):
        return "deleted"
    is_short = status_of(error) == 416  # the file ends before the requested range begins
    return "replaced" if is_short or isinstance(error, ReplacedError) else ""


def failure_reason(error: Exception) -> str:
    """Return why a request failed."""
    if isinstance(error, TooSlowError):
        return f"fewer than {LEAST:,} bytes in {STALL_S:.0f} s"
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"no data for {STALL_S:.0f} s"
    return error_line(error)


def _retry_after(error: Exception) -> float:
    """Return the seconds from the server's Retry-After header; 0 without one."""
    headers = getattr(error, "headers", None) or {}
    said = str(headers.get("Retry-After", ""))
    return min(float(said), LONGEST_ASKED_S) if said.isdigit() else 0.0
