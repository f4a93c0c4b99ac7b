"""Read a file from a web server without range support: one request, no retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from memreplay.io import ranges
from memreplay.io.ranges import AGAIN, Pace, failure_reason
from memreplay.io.urls import StoreError

T = TypeVar("T")


class WebStream:
    """A response as a file object, for use by one thread.

    The request runs on fsspec's loop. The request may take any amount of time as long as data
    arrives. If the server stops sending, reading raises StoreError, as does every later call.
    """

    def __init__(self, system: Any, url: str) -> None:
        self._loop = system.loop
        self._at = 0
        self._pace = Pace()
        self._failed: Exception | None = None
        self._answer = self._wait(_request(system, url))
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
        return StoreError(f"gave up{where}: {failure_reason(error)}; {AGAIN}")


async def _request(system: Any, url: str) -> Any:
    from aiohttp import ClientTimeout

    session = await system.set_session()
    options = dict(system.kwargs)
    # memreplay has its own timeouts
    options["timeout"] = ClientTimeout(total=None)
    options["headers"] = {**options.get("headers", {}), "Accept-Encoding": "identity"}
    answer = await session.get(system.encode_url(url), **options)
    try:
        if answer.status == 404:
            raise FileNotFoundError(url)
        answer.raise_for_status()
    except BaseException:
        answer.close()
        raise
    return answer
