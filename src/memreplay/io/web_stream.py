"""A file of a web server that gives no ranges: one request, read forward, and not made again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from memreplay.io import ranges
from memreplay.io.ranges import AGAIN, Pace, why
from memreplay.io.urls import StoreError

T = TypeVar("T")


class WebStream:
    """The bytes of an answer, as a file object for one thread.

    The request runs on fsspec's loop. It takes as long as it takes, but not without a byte. Reading
    raises StoreError where the server stops, and then every time.
    """

    def __init__(self, system: Any, url: str) -> None:
        self._loop = system.loop
        self._at = 0
        self._pace = Pace()
        self._failed: Exception | None = None
        self._answer = self._wait(_asked(system, url))
        length = self._answer.headers.get("Content-Length", "")
        self.size = int(length) if length.isdigit() else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        if self._failed is not None:
            raise self._failed
        began = time.monotonic()
        try:
            piece: bytes = self._wait(self._answer.content.read(len(buffer)))
            if piece:
                self._took(len(piece), time.monotonic() - began)
        except Exception as error:
            self._failed = error
            raise
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._answer.close)

    def _took(self, n: int, seconds: float) -> None:
        try:
            self._pace.took(n, seconds)
        except TimeoutError as error:
            raise self._gave_up(error) from error

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        limited = asyncio.wait_for(work, ranges.STALL_S)
        try:
            return asyncio.run_coroutine_threadsafe(limited, self._loop).result()
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise self._gave_up(error) from error

    def _gave_up(self, error: Exception) -> StoreError:
        where = f" at byte {self._at}" if self._at else ""
        return StoreError(f"gave up{where}: {why(error)}; {AGAIN}")


async def _asked(system: Any, url: str) -> Any:
    from aiohttp import ClientTimeout

    session = await system.set_session()
    options = dict(system.kwargs)
    # What memreplay waits for it counts itself.
    options["timeout"] = ClientTimeout(total=None)
    options["headers"] = {**options.get("headers", {}), "Accept-Encoding": "identity"}
    answer = await session.get(system.encode_url(url), **options)
    try:
        system._raise_not_found_for_status(answer, url)
    except BaseException:
        answer.close()
        raise
    return answer
