"""Build traces in the format of torch.profiler's export_chrome_trace."""

from __future__ import annotations

import json
from typing import Any


class Kineto:
    """A trace under construction, with events in the order in which they're added."""

    def __init__(self, base_ns: int = 0) -> None:
        self.base_ns = base_ns
        self.events: list[dict[str, Any]] = []

    def event(self, name: str, time: Any, args: dict[str, Any], thread: int = 1) -> Kineto:
        """Add an instant event."""
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": name, "pid": 7}
            | {"tid": thread, "ts": time, "args": args}
        )
        return self

    def memory(
        self,
        time: Any,
        address: Any,
        size: int,
        allocated: int,
        reserved: int = 0,
        *,
        device: int = 0,
        kind: int = 1,
        thread: int = 1,
    ) -> Kineto:
        """Add an allocation of `size` bytes (or a free, if negative), with the totals after it."""
        args = {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": size}
        args |= {"Addr": address, "Device Id": device, "Device Type": kind, "Ev Idx": 0}
        return self.event("[memory]", time, args, thread)

    def span(
        self, begin: float, duration: float, name: str, category: str = "cpu_op", thread: int = 1
    ) -> Kineto:
        """Add an operator, a Python call or an annotation."""
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread}
            | {"ts": begin, "dur": duration, "args": {"External id": 3, "Ev Idx": 1}}
        )
        return self

    def json(self, **top: Any) -> bytes:
        """Return the file."""
        head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0}]}
        if self.base_ns:
            head["baseTimeNanoseconds"] = self.base_ns
        return json.dumps({**head, **top, "traceEvents": self.events}).encode()
