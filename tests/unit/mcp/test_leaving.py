"""A pipe that nobody reads ends the process; one that is read, or closed here, does not."""

from __future__ import annotations

import os
from threading import Event

from memreplay.mcp.leaving import watch_output


def test_the_end_of_who_reads() -> None:
    read, write = os.pipe()
    codes: list[int] = []
    ended = Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    watch_output(write, end)
    os.write(write, b"x")
    assert not ended.wait(0.1)
    os.close(write)  # the descriptor that is watched is another one
    assert not ended.wait(0.1)
    os.close(read)
    assert ended.wait(20)
    assert codes == [141]
