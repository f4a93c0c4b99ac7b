"""Build the snapshots that tests read: dicts, and valid, odd and broken pickles.

`SnapshotBuilder` builds dicts like the ones PyTorch dumps, and the `dump*` functions turn them into
bytes. `Ops` assembles a pickle opcode by opcode. The rest makes bytes that a reader must refuse.
"""

from __future__ import annotations

import pickle
import pickletools
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.pickle_ops import Ops

Snapshot = dict[str, Any]
Entry = dict[str, Any]
FrameSpec = tuple[str, str, int]  # function name, file name, line; innermost first in a list

START_US = 1_700_000_000_000_000
ROUND = 512  # block sizes are multiples of this


# --------------------------------------------------------------------------------------------------
# Snapshots as dicts
# --------------------------------------------------------------------------------------------------


class SnapshotBuilder:
    """Build a snapshot event by event; every method except `block` and `build` returns the builder.

    `times=False` and `stacks=False` leave `time_us` and `frames` out of every event, as older
    versions and torch_npu do. `shared_lists=True` makes equal stacks one list object (the C++
    path); otherwise each event has its own list of shared frame dicts (the Python path). `fx=True`
    adds the fx fields to frames. `compile_context` and `user_metadata`, if given, go into every
    event.
    """

    def __init__(
        self,
        devices: int = 1,
        *,
        times: bool = True,
        stacks: bool = True,
        shared_lists: bool = False,
        fx: bool = False,
        compile_context: str | None = None,
        user_metadata: str | dict[str, Any] | None = None,
        start_us: int = START_US,
    ) -> None:
        self.times = times
        self.stacks = stacks
        self.shared_lists = shared_lists
        self.fx = fx
        self.compile_context = compile_context
        self.user_metadata = user_metadata
        self.next_us = start_us
        self.traces: list[list[Entry]] = [[] for _ in range(devices)]
        self.segments: list[Entry] = []
        self.annotations: list[Entry] = []
        self.extras: Snapshot = {}
        self._last: Entry = {}
        self._frame_dicts: dict[FrameSpec, Entry] = {}
        self._frame_lists: dict[tuple[FrameSpec, ...], list[Entry]] = {}

    # Events

    def event(
        self,
        action: str,
        addr: int | None = None,
        size: int | None = None,
        device: int = 0,
        frames: Sequence[FrameSpec] | None = None,
        stream: int | None = 0,
        time_us: int | None = None,
        pool_id: tuple[int, int] | None = None,
        **extra: Any,
    ) -> SnapshotBuilder:
        """Append any event. None leaves a key out; without `time_us`, the event comes a microsecond
        after the previous one.
        """
        entry: Entry = {"action": action}
        if addr is not None:
            entry["addr"] = addr
        if "device_free" in extra:  # instead of the address
            entry["device_free"] = extra.pop("device_free")
        if size is not None:
            entry["size"] = size
        if stream is not None:
            entry["stream"] = stream
        if self.times:
            entry["time_us"] = self._time(time_us)
        if self.compile_context is not None:
            entry["compile_context"] = self.compile_context
        if self.user_metadata is not None:
            entry["user_metadata"] = self.user_metadata
        if pool_id is not None:
            entry["pool_id"] = pool_id
        entry.update(extra)
        if frames is not None and self.stacks:
            entry["frames"] = self.frames(frames)
        self.traces[device].append(entry)
        self._last = entry
        return self

    def alloc(self, addr: int, size: int, device: int = 0, **fields: Any) -> SnapshotBuilder:
        """Allocate a block; `size` is the requested size. `fields` as in `event`."""
        return self.event("alloc", addr, size, device, **fields)

    def free_requested(
        self, addr: int, size: int, device: int = 0, **fields: Any
    ) -> SnapshotBuilder:
        """Request the free of a block."""
        return self.event("free_requested", addr, size, device, **fields)

    def free_completed(
        self, addr: int, size: int, device: int = 0, **fields: Any
    ) -> SnapshotBuilder:
        """Complete a free that was already requested."""
        return self.event("free_completed", addr, size, device, **fields)

    def free(self, addr: int, size: int, device: int = 0, **fields: Any) -> SnapshotBuilder:
        """Request and complete a free in the same microsecond, as for most frees: two events."""
        self.free_requested(addr, size, device, **fields)
        fields.setdefault("time_us", self._last.get("time_us"))
        return self.free_completed(addr, size, device, **fields)

    def segment_alloc(
        self, addr: int, size: int, device: int = 0, **fields: Any
    ) -> SnapshotBuilder:
        """Record a cudaMalloc."""
        return self.event("segment_alloc", addr, size, device, **fields)

    def segment_free(self, addr: int, size: int, device: int = 0, **fields: Any) -> SnapshotBuilder:
        """Record a cudaFree."""
        return self.event("segment_free", addr, size, device, **fields)

    def segment_map(self, addr: int, size: int, device: int = 0, **fields: Any) -> SnapshotBuilder:
        """Map physical memory into an expandable segment."""
        return self.event("segment_map", addr, size, device, **fields)

    def segment_unmap(
        self, addr: int, size: int, device: int = 0, **fields: Any
    ) -> SnapshotBuilder:
        """Unmap physical memory from an expandable segment."""
        return self.event("segment_unmap", addr, size, device, **fields)

    def oom(
        self, size: int, device_free: int = 0, device: int = 0, **fields: Any
    ) -> SnapshotBuilder:
        """Add an OOM event, which has `device_free` instead of an address."""
        return self.event("oom", None, size, device, device_free=device_free, **fields)

    def snapshot_event(self, size: int, device: int = 0, **fields: Any) -> SnapshotBuilder:
        """Add a snapshot event: its address is 0, and `size` is the total of active bytes."""
        return self.event("snapshot", 0, size, device, **fields)

    def drop(self, *keys: str) -> SnapshotBuilder:
        """Remove optional keys from the last event, as in some files."""
        for key in keys:
            self._last.pop(key, None)
        return self

    # Segments

    def block(
        self,
        address: int,
        size: int,
        requested_size: int | None = None,
        state: str = "active_allocated",
        frames: Sequence[FrameSpec] = (),
    ) -> Entry:
        """Return a block for a segment; `requested_size` is `size` by default."""
        return {
            "address": address,
            "size": size,
            "requested_size": size if requested_size is None else requested_size,
            "state": state,
            "frames": self.frames(frames),
        }

    def legacy_block(
        self,
        size: int,
        requested_size: int | None,
        state: str = "active_allocated",
        history: Iterable[tuple[int, int, Sequence[FrameSpec] | None]] = (),
    ) -> Entry:
        """Return a block as PyTorch 2.0 wrote it: no address; `history` of (addr, real_size,
        frames).
        """
        entry: Entry = {"size": size}
        if requested_size is not None:
            entry["requested_size"] = requested_size
        entry["state"] = state
        past: list[Entry] = []
        for addr, real_size, frames in history:
            past.append({"addr": addr, "real_size": real_size})
            if frames is not None:
                past[-1]["frames"] = self.frames(frames)
        if past:
            entry["history"] = past
        return entry

    def segment(
        self,
        address: int,
        total_size: int,
        device: int = 0,
        stream: int = 0,
        segment_type: str = "large",
        pool: tuple[int, int] = (0, 0),
        blocks: Iterable[Entry] = (),
        *,
        is_expandable: bool = False,
        frames: Sequence[FrameSpec] = (),
        legacy: bool = False,
        **extra: Any,
    ) -> SnapshotBuilder:
        """Append a segment, with totals from its blocks. `legacy` leaves out the newer keys."""
        held = list(blocks)
        active = [b for b in held if b["state"] != "inactive"]
        allocated = [b for b in active if b["state"] == "active_allocated"]
        entry: Entry = {
            "device": device,
            "address": address,
            "total_size": total_size,
            "allocated_size": sum(b["size"] for b in allocated),
            "active_size": sum(b["size"] for b in active),
            "requested_size": sum(b.get("requested_size", b["size"]) for b in active),
            "stream": stream,
            "segment_type": segment_type,
        }
        if not legacy:
            entry["segment_pool_id"] = pool
            entry["is_expandable"] = is_expandable
            entry["frames"] = self.frames(frames)
        entry.update(extra)
        entry["blocks"] = held
        self.segments.append(entry)
        return self

    def finish_segments(self, extra_live: Iterable[tuple[int, int, int]] = ()) -> SnapshotBuilder:
        """Append each device's final live set as segments with one block each, so trace and
        segments agree.

        `extra_live` adds blocks that no event mentions, as (device, addr, requested size):
        carried-over blocks that outlive the trace.
        """
        for device, trace in enumerate(self.traces):
            live: dict[int, Entry] = {}
            let_go: set[int] = set()
            for entry in trace:
                if entry["action"] == "alloc":
                    live[entry["addr"]] = entry
                    let_go.discard(entry["addr"])
                elif entry["action"] == "free_requested":
                    let_go.add(entry["addr"])
                elif entry["action"] == "free_completed":
                    live.pop(entry["addr"], None)
            for addr, entry in live.items():
                state = "active_pending_free" if addr in let_go else "active_allocated"
                block = self.block(addr, round_up(entry["size"]), entry["size"], state)
                block["frames"] = list(entry.get("frames", ()))
                self.segment(
                    addr,
                    block["size"],
                    device,
                    stream=entry.get("stream", 0),
                    pool=entry.get("pool_id", (0, 0)),
                    blocks=[block],
                )
        for device, addr, size in extra_live:
            block = self.block(addr, round_up(size), size)
            self.segment(addr, block["size"], device, blocks=[block])
        return self

    # The other top-level keys

    def annotation(
        self, name: str, stage: str, time_us: int | None = None, device: int = 0
    ) -> SnapshotBuilder:
        """Append an external annotation; `stage` is START or END."""
        at = self._time(time_us)
        self.annotations.append({"name": name, "stage": stage, "device": device, "time_us": at})
        return self

    def settings(self, **values: Any) -> SnapshotBuilder:
        """Add to `allocator_settings`."""
        self.extras.setdefault("allocator_settings", {}).update(values)
        return self

    def top(self, key: str, value: Any) -> SnapshotBuilder:
        """Set a top-level key, for example an unknown one."""
        self.extras[key] = value
        return self

    def build(self) -> Snapshot:
        """Return the snapshot. Keys are in PyTorch's order; optional keys appear only if used."""
        snapshot: Snapshot = {"segments": self.segments, "device_traces": self.traces}
        snapshot.update(self.extras)
        if self.annotations:
            snapshot["external_annotations"] = self.annotations
        return snapshot

    def frames(self, specs: Sequence[FrameSpec]) -> list[Entry]:
        """Return a list of frame dicts: a new list (but see `shared_lists`) of shared dicts."""
        key = tuple(specs)
        if self.shared_lists and key in self._frame_lists:
            return self._frame_lists[key]
        made = [self._frame(spec) for spec in key]
        self._frame_lists[key] = made
        return made

    def _frame(self, spec: FrameSpec) -> Entry:
        if spec not in self._frame_dicts:
            name, filename, line = spec
            frame: Entry = {"filename": filename, "line": line, "name": name}
            if self.fx:
                frame["fx_node_op"] = "call_function"
                frame["fx_node_name"] = f"{name}_1"
                frame["fx_node_target"] = f"aten.{name}.default"
                frame["fx_original_trace"] = f'File "{filename}", line {line}, in {name}'
            self._frame_dicts[spec] = frame
        return self._frame_dicts[spec]

    def _time(self, time_us: int | None) -> int:
        at = self.next_us if time_us is None else time_us
        self.next_us = at + 1
        return at


def round_up(size: int) -> int:
    """Return the block size for a requested size: a positive multiple of 512."""
    return max(ROUND, (size + ROUND - 1) // ROUND * ROUND)


# --------------------------------------------------------------------------------------------------
# Valid pickles
# --------------------------------------------------------------------------------------------------


def dump(snapshot: Any, protocol: int = 4) -> bytes:
    """Pickle with `pickle.dump`, which writes most files. Protocols 0 to 5."""
    return pickle.dumps(snapshot, protocol)


def dump_optimized(snapshot: Any, protocol: int = 4) -> bytes:
    """Pickle without memo entries that are never read."""
    return pickletools.optimize(pickle.dumps(snapshot, protocol))


def dump_unshared(snapshot: Any, protocol: int = 4) -> bytes:
    """Pickle without sharing: each frame is written out every time it appears."""
    return pickle.dumps(unshare(snapshot), protocol)


def dump_cpp(snapshot: Any, memoise_all: bool = False, tagged: bool = False) -> bytes:
    """Pickle as TorchScript's C++ pickler does (torch/csrc/jit/serialization/pickler.cpp).

    Protocol 2. Integers are BININT1, BININT2, BININT or an 8-byte signed LONG1, so addresses from
    2**63 up are negative. Strings are BINUNICODE, memoised by value. A container is written in one
    batch (MARK … APPENDS or SETITEMS, even if empty). A container that's used more than once is
    memoised after its contents. `memoise_all` memoises every container, as C++ does while a local
    variable still holds the container. `tagged` imitates old versions, which pass each container to
    a function that returns it.
    """
    return _CppPickler(snapshot, memoise_all, tagged).data


class _CppPickler:
    """One run of `dump_cpp`: the bytes so far, and the memo number of each memoised value."""

    def __init__(self, value: Any, memoise_all: bool, tagged: bool) -> None:
        self.references: dict[int, int] = {}  # container id -> number of references to it
        self.strings: dict[str, int] = {}
        self.containers: dict[int, int] = {}  # container id -> its memo number
        self.globals: dict[str, int] = {}
        self.memoise_all = memoise_all
        self.tagged = tagged
        self.ops = Ops().proto(2)
        self.count(value)
        self.push(value)
        self.data = bytes(self.ops.stop())

    def count(self, value: Any) -> None:
        if isinstance(value, (dict, list, tuple)):
            self.references[id(value)] = self.references.get(id(value), 0) + 1
            if self.references[id(value)] == 1:
                for child in value.values() if isinstance(value, dict) else value:
                    self.count(child)

    def push(self, value: Any) -> None:
        if value is None:
            self.ops.op("NONE")
        elif isinstance(value, bool):
            self.ops.op("NEWTRUE" if value else "NEWFALSE")
        elif isinstance(value, int):
            self.push_int(value)
        elif isinstance(value, float):
            self.ops.op("BINFLOAT", struct.pack(">d", value))
        elif isinstance(value, str):
            self.push_string(value)
        elif id(value) in self.containers:
            self.ops.get(self.containers[id(value)])
        else:
            if self.tagged:
                self.push_tagged(value)
            else:
                self.push_container(value)
            if self.memoise_all or self.references[id(value)] > 1:
                self.containers[id(value)] = self.put_next()

    def push_int(self, value: int) -> None:
        value &= 2**64 - 1
        signed = value - 2**64 if value >= 2**63 else value
        if -(2**31) <= signed < 2**31:
            self.ops.integer(signed)
        else:
            self.ops.long1(signed, 8)

    def push_string(self, value: str) -> None:
        if value in self.strings:
            self.ops.get(self.strings[value])
        else:
            self.ops.binunicode(value)
            self.strings[value] = self.put_next()

    def push_tagged(self, value: Any) -> None:
        integers = isinstance(value, list) and {type(item) for item in value} == {int}
        if integers:
            self.push_global("build_intlist")
            self.ops.mark()
            self.push_container(value)
            self.ops.op("TUPLE").op("REDUCE")
        elif isinstance(value, (dict, list)):
            self.push_global("restore_type_tag")
            self.push_container(value)
            self.push_string("Dict[str, Any]" if isinstance(value, dict) else "List[Any]")
            self.ops.op("TUPLE2").op("REDUCE")
        else:
            self.push_container(value)

    def push_global(self, name: str) -> None:
        if name in self.globals:
            self.ops.get(self.globals[name])
        else:
            self.ops.op("GLOBAL", f"torch.jit._pickle\n{name}\n".encode())
            self.globals[name] = self.put_next()

    def push_container(self, value: Any) -> None:
        if isinstance(value, dict):
            self.ops.empty_dict().mark()
            for key, item in value.items():
                self.push(key)
                self.push(item)
            self.ops.setitems()
        elif isinstance(value, list):
            self.ops.empty_list().mark()
            for item in value:
                self.push(item)
            self.ops.appends()
        elif isinstance(value, tuple):
            if len(value) > 3:
                self.ops.mark()
            for item in value:
                self.push(item)
            self.ops.op(("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE")[min(len(value), 4)])
        else:
            raise TypeError(f"the C++ pickler does not write {type(value).__name__}")

    def put_next(self) -> int:
        number = len(self.strings) + len(self.containers) + len(self.globals)
        self.ops.put(number)
        return number


def unshare(value: Any) -> Any:
    """Return a deep copy in which no container appears twice."""
    if isinstance(value, dict):
        return {key: unshare(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unshare(item) for item in value]
    if isinstance(value, tuple):
        return tuple([unshare(item) for item in value])
    return value


def with_frames(snapshot: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy in which `change` was applied to every dict with frames (event, segment or
    block).
    """
    if isinstance(snapshot, dict):
        copy = {key: with_frames(value, change) for key, value in snapshot.items()}
        if isinstance(snapshot.get("frames"), list):
            copy["frames"] = snapshot["frames"]  # the same objects, not copies
            return change(copy)
        return copy
    if isinstance(snapshot, list):
        return [with_frames(item, change) for item in snapshot]
    return snapshot


def frames_seen_before(snapshot: Any) -> Any:
    """Return a copy with an unknown key before `frames` that holds the same list."""
    return with_frames(snapshot, lambda d: {"new": d["frames"], **d})


def frame_seen_before(snapshot: Any) -> Any:
    """Return a copy with an unknown key before `frames` that holds the same frames in other
    lists.
    """
    return with_frames(snapshot, lambda d: {"new": [[f] for f in d["frames"]][::-1], **d})


def frames_as_tuples(snapshot: Any) -> Any:
    """Return a copy with a tuple instead of each list of frames."""
    return with_frames(snapshot, lambda d: {**d, "frames": tuple(d["frames"])})


def shuffle_keys(snapshot: Any, rng: random.Random) -> Any:
    """Return a copy with every dict's keys reordered; sharing is preserved."""
    made: dict[int, Any] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, (dict, list, tuple)):
            return value
        if id(value) not in made:
            if isinstance(value, dict):
                keys = list(value)
                rng.shuffle(keys)
                made[id(value)] = {key: copy(value[key]) for key in keys}
            else:
                made[id(value)] = type(value)([copy(item) for item in value])
        return made[id(value)]

    return copy(snapshot)


def unframe(data: bytes) -> bytes:
    """Remove the FRAME opcodes, which are optional, from a pickle of protocol 4 or 5."""
    return b"".join(piece for name, piece in _pieces(data) if name != "FRAME")


def reframe(data: bytes, every: int) -> bytes:
    """Split a pickle of protocol 4 or 5 into frames of about `every` bytes.

    With `every=1` each opcode has its own frame, even inside a list or after a MARK.
    """
    pieces = [piece for name, piece in _pieces(data) if name != "FRAME"]
    out = bytearray(pieces[0])  # PROTO stays outside
    frame = bytearray()
    for piece in pieces[1:]:
        frame += piece
        if len(frame) >= every or piece == pickle.STOP:
            out += pickle.FRAME + struct.pack("<Q", len(frame)) + frame
            frame.clear()
    return bytes(out)


def _pieces(data: bytes) -> list[tuple[str, bytes]]:
    """Return a pickle's opcodes by name, each with its bytes (argument included)."""
    found = [(op.name, at) for op, _, at in pickletools.genops(data) if at is not None]
    ends = [at for _, at in found[1:]] + [found[-1][1] + 1]
    return [(name, data[at:end]) for (name, at), end in zip(found, ends, strict=True)]
