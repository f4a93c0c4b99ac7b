"""The process exits once nobody reads its output pipe, but not if the process closes the pipe
itself.
"""

from __future__ import annotations

import os
from threading import Event

from memreplay.mcp.leaving import watch_output


def test_process_ends_when_the_client_disconnects() -> None:
    read, write = os.pipe()
    codes: list[int] = []
    ended = Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    watch_output(write, end)
    os.write(write, b"x")
    assert not ended.wait(0.1)
    os.close(write)  # not the watched descriptor
    assert not ended.wait(0.1)
    os.close(read)
    assert ended.wait(20)
    assert codes == [141]
