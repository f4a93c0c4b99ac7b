"""A fake allocator with PyTorch's ring buffer of events, and all that the ring buffer forgets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

SEGMENT, ROOM, SLOT = 0x7F0000000000, 1 << 30, 1 << 22


class Allocator:
    """A fake torch.cuda. Every device has one large segment, and every block a slot in it.

    `light`: PyTorch 2.10 or later, which can list blocks without events, and note metadata.
    """

    def __init__(self, entries: int, devices: int = 1, *, light: bool = True) -> None:
        self.entries, self.light = entries, light
        self.traces: list[list[dict[str, Any]]] = [[] for _ in range(devices)]
        self.live: list[dict[int, dict[str, Any]]] = [{} for _ in range(devices)]
        self.counts = [[0, 0, 0] for _ in range(devices)]  # allocs, requested and completed frees
        self.peaks = [0] * devices
        self.metadata = ""
        self.time = 1_000_000
        self.lines = 0
        self.cleared = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """Called between reading a snapshot's events and its blocks, as other threads go on."""
        self.memory = SimpleNamespace(_snapshot=self.snapshot)
        if light:
            self.memory.memory_snapshot = self.memory_snapshot
            self.memory._get_memory_metadata = lambda: self.metadata
            self.memory._set_memory_metadata = self.set_metadata

    # --- the program ------------------------------------------------------------------------------

    def alloc(self, device: int, size: int) -> int:
        """Allocate a block of this requested size. Return its address."""
        slots = {one["address"] for one in self.live[device].values()}
        base = SEGMENT + device * ROOM
        address = next(at for at in range(base, base + ROOM, SLOT) if at not in slots)
        self.lines += 1
        frames = [{"filename": "train.py", "line": self.lines, "name": "main"}]
        self.live[device][address] = {
            "address": address,
            "requested_size": size,
            # The block is larger than the rounded request, as if its hole hadn't been split.
            "size": (size + 511) // 512 * 512 + 512 * (self.lines % 3),
            "state": "active_allocated",
            "frames": frames,
        }
        self.event(device, "alloc", address, size, frames)
        self.counts[device][0] += 1
        self.peaks[device] = max(self.peaks[device], self.requested(device))
        return address

    def request_free(self, device: int, address: int) -> None:
        """Request a block's free, which waits for a stream."""
        block = self.live[device][address]
        block["state"] = "active_pending_free"
        frames = [{"filename": "free.py", "line": 1, "name": "free"}]
        self.event(device, "free_requested", address, block["requested_size"], frames)
        self.counts[device][1] += 1

    def free(self, device: int, address: int) -> None:
        """Free a block."""
        if self.live[device][address]["state"] == "active_allocated":
            self.request_free(device, address)
        block = self.live[device].pop(address)
        frames = [{"filename": "free.py", "line": 1, "name": "free"}]
        self.event(device, "free_completed", address, block["requested_size"], frames)
        self.counts[device][2] += 1

    def requested(self, device: int) -> int:
        """Return the requested bytes that are live."""
        return sum(block["requested_size"] for block in self.live[device].values())

    # --- PyTorch ----------------------------------------------------------------------------------

    def event(
        self, device: int, action: str, address: int, size: int, frames: list[dict[str, Any]]
    ) -> None:
        self.time += 1
        event = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": self.time,
            "frames": frames,
        }
        if self.light:
            event["user_metadata"] = self.metadata
        self.traces[device].append(event)
        del self.traces[device][: -self.entries]

    def device_count(self) -> int:
        return len(self.traces)

    def memory_stats_as_nested_dict(self, device: int) -> dict[str, Any]:
        allocs, requests, frees = self.counts[device]
        return {
            "requested_bytes": {"all": {"peak": self.peaks[device]}},
            "allocation": {"all": {"allocated": allocs, "freed": requests}},
            "active": {"all": {"freed": frees}},
            "segment": {"all": {"allocated": 0, "freed": 0}},
        }

    def set_metadata(self, text: str) -> None:
        self.metadata = text

    def clear(self) -> None:
        """Forget all events."""
        self.cleared += 1
        for trace in self.traces:
            trace.clear()

    def memory_snapshot(self, *, include_traces: bool) -> list[dict[str, Any]]:
        assert not include_traces
        return self.segments()

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot, and mark it in the events."""
        traces = [[dict(event) for event in trace] for trace in self.traces]
        self.meanwhile()
        return {"segments": self.segments(), "device_traces": traces}

    def segments(self) -> list[dict[str, Any]]:
        """Return the blocks, and mark this moment in the events."""
        segments = []
        for device, live in enumerate(self.live):
            base = SEGMENT + device * ROOM
            blocks, at = [], base
            for address in sorted(live):
                if address > at:
                    blocks.append({"address": at, "size": address - at, "state": "inactive"})
                blocks.append(dict(live[address]))
                at = address + live[address]["size"]
            blocks.append({"address": at, "size": base + ROOM - at, "state": "inactive"})
            segments.append(
                {
                    "device": device,
                    "address": base,
                    "total_size": ROOM,
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "blocks": blocks,
                }
            )
            self.event(device, "snapshot", 0, sum(one["size"] for one in live.values()), [])
        return segments
