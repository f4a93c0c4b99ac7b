"""Cards and recordings for tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from memreplay.live.cards import Card
from memreplay.live.result import LiveProcess, LiveRecording, RecordedDevice
from memreplay.recording.processes import Process
from memreplay.snapshot.recorded_holders import HeldBy

MIB, GIB = 1 << 20, 1 << 30
UUID = "1234abcd-0000-0000-0000-000000000001"
HOLDER = HeldBy(
    kind="variable",
    name="losses[…]",
    function="train",
    file="/home/ana/train.py",
    line=12,
    type_name="list",
    bytes=13 * GIB,
    count=445,
    autograd_bytes=0,
    autograd_count=0,
    nodes=(),
    small_views=0,
)


def card(**changes: Any) -> Card:
    """Return a card that a recorded process and another one use."""
    made = Card(
        number=0,
        name="NVIDIA H200",
        uuid=f"GPU-{UUID}",
        total=140 * GIB,
        free=60 * GIB,
        processes=[Process(4711, "python", 33 * GIB), Process(100, "python", 46 * GIB)],
        missing="",
    )
    return made._replace(**changes)


def device(**changes: Any) -> RecordedDevice:
    made = RecordedDevice(
        device=0,
        name="NVIDIA H200",
        uuid=UUID,
        total_bytes=140 * GIB,
        free_bytes=60 * GIB,
        allocated_bytes=40 * GIB,
        allocated_peak_bytes=44 * GIB,
        reserved_bytes=45 * GIB,
        reserved_peak_bytes=50 * GIB,
        processes=(LiveProcess(100, "python", 46 * GIB),),
        processes_missing="",
    )
    return replace(made, **changes)


def recording(*devices: RecordedDevice, **changes: Any) -> LiveRecording:
    made = LiveRecording(
        pid=100,
        name="train.py",
        rank=None,
        step_count=17,
        file="/home/ana/snap.pickle",
        start_us=1_000_000,
        is_dryrun=False,
        is_continuous=False,
        can_dump=True,
        is_dumping=False,
        last_file="",
        last_us=0,
        holders=(),
        devices=devices or (device(),),
    )
    return replace(made, **changes)
