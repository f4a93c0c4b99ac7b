"""Turn simulations into a snapshot, as if it had been recorded."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.engine.query._vectors import chosen, constant, joined, vector, zeros
from memreplay.errors import UsageError
from memreplay.io.limits import Limits
from memreplay.snapshot.alloc_conf import spelled
from memreplay.snapshot.backends import VARIABLES
from memreplay.snapshot.cards import context_bytes, usable_bytes
from memreplay.snapshot.settings import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memreplay.engine.query._vectors import Vector
    from memreplay.engine.read._adding import Adding
    from memreplay.engine.simulate._simulating import Simulation
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot
    from memreplay.snapshot.trace import Trace

ABSENT = _core.ABSENT_ID
_OOM = _core.ACTIONS.index("oom")
_ALLOC = _core.ACTIONS.index("alloc")
# The recorder's notes to copy.
_KEPT_NOTES = ("torch", "version", "source_lines")


def retold(snap: Snapshot, found: Mapping[int, Simulated]) -> Snapshot:
    """Return a snapshot with the simulated events for the devices in `found`. Other devices are
    dropped.

    `found`: device number -> simulation. Events have the times and stacks of the recorded events,
    and segment events those of the requests that caused them. The file's notes mark it as simulated
    (docs/format.md). Raises UsageError if a simulation belongs to another snapshot or device, or if
    settings differ.
    """
    from memreplay.snapshot.snapshot import Snapshot

    _check(snap, found)
    natives = {device: one.rerun(trace=True) for device, one in sorted(found.items())}

    def then(tables: _core.Tables) -> tuple[int, int]:
        _Retelling(snap, tables).tell(found, natives)
        return snap.protocol, snap.stream_bytes

    prelude = io.BytesIO(json.dumps(_prelude(snap, found, natives)).encode())
    limits = Limits()
    native = _core.read(
        prelude.readinto,
        limits.numbers(),
        None,
        False,
        None,
        None,
        then,
    )
    return Snapshot(native, snap.origin, project=snap.project)


def _check(snap: Snapshot, found: Mapping[int, Simulated]) -> None:
    """Raise UsageError if a simulation belongs to another snapshot, or if settings differ."""
    for device, one in found.items():
        if one.replay.device != device or snap.replay(device) is not one.replay:
            raise UsageError(
                f"device {device}: the simulation belongs to another snapshot or device"
            )
    if len({one.settings for one in found.values()}) > 1:
        raise UsageError(
            "a snapshot has a single set of allocator settings, but these devices were"
            " simulated with different ones: save each separately (--device)"
        )


def _prelude(
    snap: Snapshot, found: Mapping[int, Simulated], natives: Mapping[int, Simulation]
) -> dict[str, object]:
    """Return all data that tables don't contain."""
    made: dict[str, object] = {"segments": [], "device_traces": [], "external_annotations": []}
    # all simulations have the same settings
    for settings in {one.settings for one in found.values()}:
        made["allocator_settings"] = {
            **{name: value for name, value in snap.settings.items() if name not in VARIABLES},
            snap.backend.variable: spelled(settings),
            "max_split_size": settings.max_split_bytes,
            "garbage_collection_threshold": settings.collect_threshold,
            "expandable_segments": settings.expandable,
            "roundup_power2_divisions": {
                str(2**step): settings.divisions[step] for step in range(STEPS)
            },
        }
    if (flag := snap.kept("overflowed")) is not None:
        made["trace_alloc_overflowed"] = flag
    if notes := _notes(snap, found, natives):
        made["memreplay"] = notes
    return made


def _notes(
    snap: Snapshot, found: Mapping[int, Simulated], natives: Mapping[int, Simulation]
) -> dict[str, object]:
    """Return the recorder's notes about the same allocations and steps, with the simulated card."""
    notes = {name: snap.recorder[name] for name in _KEPT_NOTES if name in snap.recorder}
    notes["recorder"] = "simulate"
    notes["backend"] = snap.backend.name
    notes["simulated"] = {
        "reasons": sorted({reason for one in found.values() for reason in one.reasons})
    }
    places = range(1 + max(natives, default=-1))
    if any(one.program_memory_bytes is not None for one in found.values()):
        cards = {
            device: _card(snap.replay(device), one.program_memory_bytes)
            for device, one in found.items()
        }
        notes["cards"] = [cards.get(device, {"total_bytes": None}) for device in places]
    at = {device: vector(native.trace()["at"]).as_format("q") for device, native in natives.items()}
    steps = {device: snap.recorded_steps(device) for device in natives}
    if any(steps.values()):
        notes["steps"] = [
            at[device].places(steps[device]).tolist() if device in natives else []
            for device in places
        ]
    if snap.recorded is None:
        return notes
    columns = [vector([]) for _ in places]
    addresses, kinds = [], []
    for device, native in natives.items():
        replay, rows = found[device].replay, native.trace()
        of_events = snap.recorded.of_events(replay)[vector(rows["stack"])]
        columns[device] = chosen(vector(rows["action"]) == _ALLOC, of_events, ABSENT)
        addresses.append(vector(replay.carried("address")))
        kinds.append(snap.recorded.of_carried(replay))
    notes["allocations"] = snap.recorded.renoted(
        [column.as_format("I") for column in columns],
        joined(addresses, "Q"),
        joined(kinds, "I"),
    )
    return notes


def _card(replay: Replay, usable: int | None) -> dict[str, object]:
    """Return the simulated card.

    If the program has the same amount of memory, this is the recording's card. Otherwise, it's a
    card whose whole memory is available to the program, so that readers derive the same limit.
    """
    if usable is None:
        return {"total_bytes": None}
    total, name = usable, None
    if replay.card.bytes is not None and usable == replay.recorded.usable_bytes:
        total, name = replay.card.bytes, replay.card.name
    told: dict[str, object] = {"total_bytes": total}
    if name is not None:
        told["name"] = name
    if usable_bytes(total, context_bytes(total, name, total)) != usable:
        told["context_bytes"] = total - usable
    return told


class _Retelling:
    """Fills the tables of the new snapshot."""

    def __init__(self, snap: Snapshot, tables: _core.Tables) -> None:
        from memreplay.engine.read._adding import Adding

        self.snap = snap
        self.adding: Adding = Adding(tables)
        texts, pools = self.adding.code_of(snap.native)
        # The last entry stands for a missing string.
        self.texts = joined([texts, [ABSENT]], "I")
        self.pools = joined([pools, [ABSENT]], "I")
        self.kinds = vector(self.adding.intern(b"smalllarge", vector([0, 5, 10], "i")))
        self.default_pool = ABSENT
        if len(self.pools) > 1:
            self.default_pool = self.adding.pool(0, 0)
        names = {code: snap.action_name(code) for code in range(256)}
        self.actions = vector(
            [
                self.adding.action(name.encode("utf-8", "surrogatepass"))
                if name and code >= len(_core.ACTIONS)
                else code
                for code, name in names.items()
            ],
            "B",
        )

    def tell(self, found: Mapping[int, Simulated], natives: Mapping[int, Simulation]) -> None:
        """Fill everything, in the order that tables require."""
        segments = 0
        for device, native in natives.items():
            segments += self._segments(device, found[device].replay, native, segments)
        self._annotations(found)
        for device in range(1 + max(natives, default=-1)):
            self.adding.trace(device)
            if device in natives:
                self._events(found[device].replay, natives[device])

    def _events(self, replay: Trace, native: Simulation) -> None:
        rows = {name: vector(column) for name, column in native.trace().items()}
        at, address = rows["at"], rows["address"]
        failed = rows["action"] == _OOM
        self.adding.events(
            self.actions[rows["action"]],
            chosen(failed, 0, address).as_format("Q"),
            rows["size"].as_format("q"),
            replay.vector("time", "q")[at],
            rows["stream"].as_format("Q"),
            replay.vector("stack", "I")[rows["stack"]],
            self._pools(rows["pool"]),
            self._texts(replay.vector("compile_context", "I")[at]),
            self._texts(replay.vector("user_metadata", "I")[at]),
            chosen(failed, address, 0).as_format("q"),
            failed.as_format("B"),
        )

    def _segments(self, device: int, replay: Trace, native: Simulation, before: int) -> int:
        segments, blocks = (
            {name: (one := vector(column)).as_format(one.format) for name, column in table.items()}
            for table in native.final_state()
        )
        n, m = len(segments["address"]), len(blocks["address"])
        made = segments["created_at"]
        stacks = zeros(n, "I")
        stacks[made >= 0] = replay.vector("stack", "I")[made[made >= 0]]
        self.adding.segments(
            constant(device, n, "i").copy(),
            segments["address"],
            segments["size"],
            segments["allocated"],
            segments["active"],
            segments["requested"],
            constant(1, n, "B").copy(),
            segments["stream"],
            self.kinds[1 - segments["small"]],
            self._pools(segments["pool"]),
            stacks,
            segments["expandable"],
        )
        self.adding.blocks(
            (blocks["segment"] + before).as_format("I"),
            blocks["address"],
            blocks["size"],
            blocks["requested"],
            constant(1, m, "B").copy(),
            blocks["state"],
            blocks["stack"],
        )
        return n

    def _annotations(self, found: Mapping[int, Simulated]) -> None:
        if not self.snap.annotation_count:
            return
        columns = self.snap.annotation_rows("device", "time", "stage", "name")
        device, time, stage, name = map(vector, columns)
        keep = device.is_in([-1, *found])
        self.adding.annotations(
            device[keep],
            time[keep],
            self._texts(stage[keep]),
            self._texts(name[keep]),
        )

    def _texts(self, ids: Vector) -> Vector:
        return self.texts[ids.lower(len(self.texts) - 1)]

    def _pools(self, ids: Vector) -> Vector:
        known = self.pools[ids.lower(len(self.pools) - 1)]
        return chosen(ids == ABSENT, self.default_pool, known).as_format("I")
