"""A small client of `memreplay mcp`, which measures its processes' memory during each call."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, NamedTuple

from tests.hostile_queries.processes import memory_of, tree_of

_SAMPLE_SECONDS = 0.05
# A server whose queries may take this long.
_CODE = """
import sys
from memreplay.mcp import calls
calls.BOUNDS = calls.BOUNDS._replace(seconds=float(sys.argv[1]))
from memreplay.__main__ import main
sys.argv = ["memreplay", "mcp", sys.argv[2]]
sys.exit(main())
"""


class Answered(NamedTuple):
    """A call's answer and what it took. `text` is None if there was no answer in time."""

    text: str | None
    is_error: bool
    seconds: float
    bytes: int


class Client:
    """A session with a server process for one folder. The calls' time is limited by `seconds`."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _CODE, f"{seconds}", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        self._unread = b""
        self._number = 0
        self._request(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"},
            },
        )
        self._wait(60.0)
        self._send({"method": "notifications/initialized"})

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _where: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.wait()
        for pipe in (self._server.stdin, self._server.stdout):
            assert pipe is not None
            pipe.close()

    def end(self) -> None:
        """End the server; a call that waits for it gets no answer."""
        self._server.kill()

    def memory(self) -> int:
        """Return the memory of the server and all below it in bytes."""
        return memory_of(tree_of(self._server.pid))

    def call(self, tool: str, arguments: dict[str, Any], most_seconds: float) -> Answered:
        """Call a tool, and wait at most this long for the answer."""
        started = time.monotonic()
        self._request("tools/call", {"name": tool, "arguments": arguments})
        found, most = self._wait(most_seconds)
        seconds = time.monotonic() - started
        if found is None:
            return Answered(None, True, seconds, most)
        if "result" not in found:
            return Answered(str(found), True, seconds, most)
        result = found["result"]
        return Answered(result["content"][0]["text"], result.get("isError", False), seconds, most)

    def _request(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._server.stdin.flush()

    def _wait(self, seconds: float) -> tuple[dict[str, Any] | None, int]:
        """Return the last request's answer and the most memory meanwhile."""
        assert self._server.stdout is not None
        until, most = time.monotonic() + seconds, 0
        number = self._server.stdout.fileno()
        while time.monotonic() < until:
            line, end, rest = self._unread.partition(b"\n")
            if end:
                self._unread = rest
                said: dict[str, Any] = json.loads(line)
                if said.get("id") == self._number:
                    return said, most
                continue
            if select.select([number], [], [], _SAMPLE_SECONDS)[0]:
                piece = os.read(number, 1 << 16)
                if not piece:
                    break
                self._unread += piece
            else:
                most = max(most, self.memory())
        return None, most
