"""The inputs that mutation starts from: small ones of each kind, and a few large ones."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import memreplay as mr
from tests import build, oracle
from tests.build import FrameSpec, SnapshotBuilder
from tests.conformance import accept, reject
from tests.fuzz import datasets
from tests.fuzz.programs import examples, programs
from tests.strategies import column

SMALL = 8 << 10
LARGE = 4 << 20
STACK: list[FrameSpec] = [("empty", "??", 0), ("forward", "model.py", 7), ("main", "train.py", 3)]


@dataclass
class Seeds:
    """The seeds: `pickles`, `texts` (JSON) and `large` can be read, unless cut off; `broken` can't.
    `plain` has those from `pickles` that are safe to unpickle; `datasets` are packed exports of
    some seeds.
    """

    pickles: list[bytes] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    plain: list[bytes] = field(default_factory=list)
    large: list[bytes] = field(default_factory=list)
    broken: list[bytes] = field(default_factory=list)
    datasets: list[bytes] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        """Add an input to its list."""
        if len(data) > LARGE:
            return
        if len(data) > SMALL:
            self.large.append(data)
        elif data[:1] in (b"{", b"["):
            self.texts.append(data)
        else:
            self.pickles.append(data)


def seeds(corpus: Iterable[Path] = ()) -> Seeds:
    """Return the seeds; the same corpus always gives the same list."""
    made = Seeds()
    snapshots = [*generated(), *programs()]
    for data in examples():
        snapshots += [shortened(whole) for whole in loaded(data)]
    for data in accept.CASES.values():
        made.add(data)
        if len(data) <= SMALL:
            snapshots += loaded(data)
    made.broken += [case.data for case in reject.CASES.values() if len(case.data) <= LARGE]
    for path in corpus:
        data = path.read_bytes()
        made.add(data)
        made.add(data[:SMALL])
        snapshots += [shortened(whole) for whole in loaded(data)]
    for snapshot in snapshots:
        small = [written for written in writings(snapshot) if len(written) <= SMALL]
        for written in small or [build.dump(snapshot)]:
            made.add(written)
        made.plain.append(pickle.dumps(snapshot, 5))
    made.large.append(build.dump(recording(2_000)))
    for name in ("pickles", "texts", "plain", "large", "broken"):
        one_of_each = dict.fromkeys(getattr(made, name))
        setattr(made, name, [data for data in one_of_each if data])
    made.plain = [data for data in made.plain if len(data) <= SMALL]
    for snapshot in generated():
        snap = mr.open(build.dump(snapshot))
        made.datasets += [datasets.exported(snap, fmt) for fmt in datasets.WRITERS]
    return made


def generated() -> Iterator[Any]:
    """Return one small snapshot per kind of writer."""
    yield recording(6)
    yield recording(4, devices=2, shared_lists=True, fx=True)
    yield recording(4, times=False)
    yield recording(4, stacks=False, compile_context="0/0", user_metadata={"step": 3})
    graph = SnapshotBuilder()
    for i in range(4):
        frames: list[FrameSpec] = [("setCheckpointPoolState", "??", 0)] if i % 2 else STACK
        graph.alloc(2**40 + 512 * i, 512, frames=frames).free(2**40 + 512 * i, 512, frames=frames)
    yield graph.build()
    old = SnapshotBuilder()
    blocks = [
        old.legacy_block(512, None, history=[(8192, 500, STACK[:1]), (8192, 400, None)]),
        old.legacy_block(1024, 1000, "inactive"),
    ]
    yield old.segment(8192, 2048, legacy=True, blocks=blocks).build()
    yield noted(recording(4, devices=2))


def noted(snapshot: Any) -> Any:
    """Add notes from memreplay's recorder to a snapshot."""

    def as_text(of: Iterable[int], kind: str = "<u4") -> str:
        return column(np.array(list(of), kind))

    events = [[len(event["action"]) % 4 for event in one] for one in snapshot["device_traces"]]
    snapshot["memreplay"] = {
        "allocations": {
            "categories": ["", "parameters", "activations"],
            "phases": ["start", "forward"],
            "modules": ["", "GPT", "GPT.0"],
            "kinds": as_text([1, 0, 1, 2, 1, 2, 0, 1, 0]),
            "events": [as_text(one) for one in events],
            "before": {"addresses": as_text([2**44, 2**41], "<u8"), "kinds": as_text([1, 3])},
        },
        "steps": [[1, len(one)] for one in events],
        "cards": [{"total_bytes": 2**30}],
        "notes": 'a "text"\\ of all: \b\f\n\r\t/ \x01 \u00e9 \u2028 \U0001f600',
    }
    return snapshot


def recording(allocs: int, devices: int = 1, **kind: Any) -> Any:
    """Return a snapshot with one event per action, and some allocations and frees."""
    builder = SnapshotBuilder(devices, **kind)
    for device in range(devices):
        builder.segment_alloc(2**40, 2**21, device, frames=STACK[1:])
        for i in range(allocs):
            addr = 2**40 + 4096 * (i % 5)
            builder.alloc(addr, 1000 + i, device, frames=STACK[i % 3 :], pool_id=(0, 1))
            if i % 3:
                builder.free(addr, 1000 + i, device, frames=STACK[i % 3 :])
        builder.free(2**41, 4096, device)
        builder.oom(2**30, 2**20, device, frames=STACK).snapshot_event(5, device)
        builder.segment_map(2**42, 512, device).segment_unmap(2**42, 512, device)
    builder.finish_segments([(0, 2**44, 77)]).annotation("step", "START").annotation("step", "END")
    return builder.settings(expandable_segments=True, max_split_size=-1).build()


def writings(snapshot: Any) -> Iterator[bytes]:
    """Write the snapshot with every writer that can represent it."""
    for protocol in (0, 2, 4):
        yield build.dump(snapshot, protocol)
    yield as_python_2(build.dump(snapshot, 0))
    try:
        yield build.dump_cpp(snapshot)
        yield json.dumps(snapshot).encode()
    except (TypeError, ValueError, OverflowError):
        return


def as_python_2(pickled: bytes) -> bytes:
    """Return a protocol 0 pickle with its strings as Python 2 wrote them: quoted and escaped."""
    escapes = rb"\n\r\t\a\b\v\f\101\x41\\\'"

    def quoted(found: re.Match[bytes]) -> bytes:
        text = found[1]
        return b"S'" + text.replace(b"'", b"\\'") + (escapes if b".py" in text else b"") + b"'\n"

    return re.sub(rb"(?m)^V([ !#-\[\]-~]*)\n", quoted, pickled)


def loaded(data: bytes) -> list[Any]:
    """Return the value in a pickle of plain data, or None if it can't be loaded."""
    try:
        return [oracle.load(data)]
    except Exception:  # pickle can raise anything
        return []


def shortened(snapshot: Any) -> Any:
    """Shorten a real snapshot to its first events, segments and frames."""
    if isinstance(snapshot, list):
        return [shortened_segment(one) for one in snapshot[:2]]
    short = {key: value for key, value in snapshot.items() if _is_short(value)}
    short["segments"] = [shortened_segment(one) for one in snapshot.get("segments", [])[:2]]
    short["device_traces"] = [
        [shortened_holder(event) for event in trace[:8]]
        for trace in snapshot.get("device_traces", [])[:4]
    ]
    return short


def shortened_segment(segment: Any) -> Any:
    blocks = [shortened_holder(block) for block in segment.get("blocks", [])[:3]]
    return {**segment, "blocks": blocks}


def shortened_holder(holder: Any) -> Any:
    """Shorten an event's or a block's frames to at most two."""
    return {**holder, "frames": holder["frames"][:2]} if holder.get("frames") else holder


def _is_short(value: Any) -> bool:
    buffer = io.BytesIO()
    pickle.dump(value, buffer, 4)
    return buffer.tell() < 1 << 10
