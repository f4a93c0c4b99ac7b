"""Run work on a few threads next to the event loop, and tell the work when its caller gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 4
QUERIES_AT_ONCE = 2  # besides the other calls


class Threads:
    """Daemon threads, so that a running thread doesn't delay the exit."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)

    async def run(self, work: Callable[[Event], T]) -> T:
        """Return or raise the result of `work`. On cancellation, the work's event is set; its slot
        is freed once the work ends.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        stop = Event()

        def settle(found: T | None, error: BaseException | None) -> None:
            self._places.release()
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(found)  # type: ignore[arg-type]

        def thread() -> None:
            found: T | None = None
            error: BaseException | None = None
            try:
                found = work(stop)
            except BaseException as raised:  # the waiting call raises the error
                error = raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, found, error)

        Thread(target=thread, daemon=True).start()
        try:
            return await done
        finally:
            stop.set()
