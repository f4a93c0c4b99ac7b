"""Work runs outside the loop, a few at a time; a cancelled caller tells its work to stop."""

from __future__ import annotations

import asyncio
import threading
from threading import Event

import pytest

from memreplay.mcp.running import Threads


def test_results_and_exceptions_of_work_reach_the_caller() -> None:
    def fail(_stop: Event) -> None:
        raise KeyError("x")

    async def main() -> None:
        threads = Threads()
        here = threading.get_ident()
        assert await threads.run(lambda _stop: threading.get_ident()) != here
        with pytest.raises(KeyError):
            await threads.run(fail)

    asyncio.run(main())


def test_amount_of_work_at_a_time_is_limited() -> None:
    running = most = 0
    lock = threading.Lock()
    go = Event()

    def work(_stop: Event) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if running == 2:
            go.set()
        assert go.wait(20)
        with lock:
            running -= 1

    async def main() -> None:
        threads = Threads(2)
        await asyncio.gather(*(threads.run(work) for _ in range(6)))

    asyncio.run(main())
    assert most == 2


def test_loop_stays_responsive() -> None:
    async def main() -> None:
        threads, let = Threads(), Event()
        slow = asyncio.create_task(threads.run(lambda _stop: let.wait(20)))
        assert await threads.run(lambda _stop: 1) == 1
        assert not slow.done()
        let.set()
        assert await slow

    asyncio.run(main())


def test_cancelled_work_is_told_to_stop_and_keeps_its_slot_until_it_ends() -> None:
    heard, end = Event(), Event()

    def work(stop: Event) -> None:
        assert stop.wait(20)
        heard.set()
        assert end.wait(20)

    async def main() -> None:
        threads = Threads(1)
        task = asyncio.create_task(threads.run(work))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(heard.wait, 20)
        following = asyncio.create_task(threads.run(lambda _stop: 2))
        await asyncio.sleep(0.05)
        assert not following.done()
        end.set()
        assert await following == 2

    asyncio.run(main())
    assert heard.is_set()


def test_closed_loop_is_left_alone() -> None:
    end, ended = Event(), Event()

    def work(_stop: Event) -> None:
        assert end.wait(20)
        ended.set()

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(Threads().run(work), 0.05)

    asyncio.run(main())
    end.set()
    assert ended.wait(20)
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread():
            thread.join(0.2)
