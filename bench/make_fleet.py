"""Write a many-rank job's snapshots into a folder, and print the truth about them as JSON.

    python bench/make_fleet.py FOLDER --ranks 300 --kb 100,500,2000 --broken 5
    python bench/make_fleet.py FOLDER --ranks 10000 --kb 100 --nested

The ranks belong to consecutive pipeline stages, whose models differ in their layers and their share
of the weights; within a stage, shares differ by a few MiB. One rank is odd: it keeps a tensor from
each step, in `keep_history`. The same arguments always give the same bytes.

One training run is simulated for each stage and size (leaky.py), and pickled for each device with a
placeholder for the share; for each rank only that number is replaced.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import leaky

MIB = 1 << 20
DEVICES = 8  # per host
STAND_IN = 0x5A5A5A5A  # placeholder for a share's size in bytes, replaced for each rank
SHARE_AT = 0x7E00_0000_0000  # lower than the addresses that leaky.py uses
LEAKS_AT = leaky.PLACES["leak"][0][2]  # a line that no other call site uses
FILE = "/home/ana/fleet/{}.py"
SHARE = (("sharded", "model", 31), ("main", "train", 88), ("<module>", "train", 104))
HISTORY = (("keep_history", "metrics", 12), ("main", "train", 97), ("<module>", "train", 104))

Entry = dict[str, Any]


def truncated(data: bytes) -> bytes:
    """Return a file as left by a job that was killed while writing."""
    return data[: len(data) * 2 // 3]


def empty(_: bytes) -> bytes:
    """Return a file as left by a full disk."""
    return b""


def no_pickle(_: bytes) -> bytes:
    """Return a file that isn't a pickle."""
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(64)


def hostile(_: bytes) -> bytes:
    """Return a pickle that runs a command when unpickled: `true`, which does nothing."""
    return b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."


def another_thing(_: bytes) -> bytes:
    """Return a valid pickle that isn't a snapshot."""
    return pickle.dumps({"weights": [1.0, 2.0], "epoch": 3}, 4)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "truncated": truncated,
    "empty": empty,
    "no pickle": no_pickle,
    "hostile": hostile,
    "another thing": another_thing,
}
"""Kinds of broken files, in the order in which they are planted."""


@dataclass(frozen=True)
class Fleet:
    """Options. `odd` is the odd rank: None for the rank at two thirds, -1 for no odd rank."""

    ranks: int = 300
    kb: tuple[int, ...] = (100,)
    """Approximate file sizes in kB (1000 bytes), assigned to ranks in turn."""
    stages: int = 4
    odd: int | None = None
    odd_share: float = 0.25
    """By how many bytes the odd rank's peak exceeds its normal peak."""
    broken: int = 0
    nested: bool = False
    """Whether each host has a folder (`host3/rank25.pickle`)."""

    @property
    def odd_rank(self) -> int:
        return self.ranks * 2 // 3 if self.odd is None else self.odd

    def broken_ranks(self) -> dict[int, str]:
        """Spread the kinds of broken files evenly over the ranks, except the odd rank."""
        kinds = list(BROKEN)
        found: dict[int, str] = {}
        for i in range(self.broken):
            rank = (i + 1) * self.ranks // (self.broken + 1)
            while rank == self.odd_rank or rank in found:
                rank = (rank + 1) % self.ranks
            found[rank] = kinds[i % len(kinds)]
        return found


@dataclass(frozen=True)
class Template:
    """A rank's file with a placeholder for its share, and its peaks without a share."""

    parts: tuple[bytes, ...]
    peak_bytes: int
    reserved_bytes: int
    steps: int

    def of(self, share: int) -> bytes:
        """Return the file of a rank with this share."""
        return _integer(share).join(self.parts)


def make_fleet(folder: Path, fleet: Fleet) -> Entry:
    """Write all files and return the truth."""
    _check(fleet)
    folder.mkdir(parents=True, exist_ok=True)
    broken = fleet.broken_ranks()
    templates: dict[tuple[int, int], Template] = {}
    rows: list[Entry] = []
    before = -1
    for rank in range(fleet.ranks):
        stage = rank * fleet.stages // fleet.ranks
        if stage != before:
            templates.clear()  # templates of the previous stage aren't needed again
            before = stage
        device = rank % DEVICES
        kb = fleet.kb[rank // DEVICES % len(fleet.kb)]
        made = templates.get((kb, device))
        if made is None:
            made = templates[kb, device] = template(stage, kb, device)
        share = _share(rank, stage)
        if rank == fleet.odd_rank:
            history = round(fleet.odd_share * (made.peak_bytes + share))
            made = template(stage, kb, device, history)
        name = f"host{rank // DEVICES}/rank{rank}.pickle" if fleet.nested else f"rank{rank}.pickle"
        path = folder / name
        if fleet.nested:
            path.parent.mkdir(exist_ok=True)
        data = made.of(share)
        row: Entry = {"rank": rank, "file": name, "broken": broken.get(rank)}
        if rank in broken:
            data = BROKEN[broken[rank]](data)
        else:
            row |= {
                "stage": stage,
                "device": device,
                "peak_bytes": made.peak_bytes + share,
                "reserved_bytes": made.reserved_bytes + share,
                "steps": made.steps,
            }
        path.write_bytes(data)
        rows.append(row)
    odd = fleet.odd_rank
    return {
        "ranks": rows,
        "broken": {str(rank): kind for rank, kind in broken.items()},
        "odd": {"rank": odd, "function": HISTORY[0][0], "file": FILE.format(HISTORY[0][1])}
        if odd >= 0
        else None,
        "stages": fleet.stages,
    }


def _check(fleet: Fleet) -> None:
    """Raise ValueError for impossible options."""
    if not 1 <= fleet.stages <= fleet.ranks or not fleet.kb or min(fleet.kb) < 1:
        raise ValueError("a stage has a rank at least, and a file 1 kB")
    if not 0 <= fleet.broken < fleet.ranks or not -1 <= fleet.odd_rank < fleet.ranks:
        raise ValueError("there are not so many ranks")


def _share(rank: int, stage: int) -> int:
    """Return the bytes of a rank's weights: fewer from stage to stage, plus 0 to 8 MiB that depend
    on the rank.
    """
    return (320 - 224 * stage // (stage + 3) + rank * 7 % 5) * 2 * MIB


def template(stage: int, kb: int, device: int, history: int = 0) -> Template:
    """Return a stage's template for a device, with about the given number of bytes of history at
    the end.
    """
    steps = _steps(stage, kb)
    run = _run(stage, steps, history // (steps - 1))
    kept = [_frame(one) for one in HISTORY]

    def renamed(one: Entry) -> Entry:
        leaks = one["frames"] and one["frames"][0]["line"] == LEAKS_AT
        return {**one, "frames": kept} if leaks else one

    segments = [
        {**one, "device": device, "blocks": [renamed(block) for block in one["blocks"]]}
        for one in run["segments"]
    ]
    events = [renamed(event) for event in run["device_traces"][0]]
    segment, made = _share_of(STAND_IN, events[0]["time_us"], device)
    events = [*made, *events]
    traces: list[list[Entry]] = [[] for _ in range(device)]
    snapshot = {
        **run,
        "segments": [segment, *segments],
        "device_traces": [*traces, events],
        "external_annotations": [{**one, "device": device} for one in run["external_annotations"]],
    }
    peak = _peak(events, "alloc", "free_completed")
    reserved = _peak(events, "segment_alloc", "segment_free")
    parts = tuple(pickle.dumps(snapshot, 4).split(_integer(STAND_IN)))
    if len(parts) != 9:  # in two events, a segment and its block; nowhere else
        raise AssertionError(f"the placeholder occurs {len(parts) - 1} times")
    return Template(parts, peak - STAND_IN, reserved - STAND_IN, steps)


@cache
def _steps(stage: int, kb: int) -> int:
    """Return the number of steps for a file of this size; the size is linear in the number of
    steps.
    """
    few, more = 4, 12
    sizes = [len(pickle.dumps(_run(stage, steps), 4)) for steps in (few, more)]
    step = (sizes[1] - sizes[0]) / (more - few)
    return max(2, few + round((kb * 1000 - sizes[0]) / step))


@cache
def _run(stage: int, steps: int, kept_bytes: int = 0) -> Entry:
    """Return a stage's training run that keeps `kept_bytes` per step. Never modify it."""
    return leaky.snapshot(
        leaky.Options(
            steps=steps, leak_bytes=kept_bytes, layers=2 + stage % 4, width=256, seed=stage
        )
    )


def _share_of(size: int, time_us: int, device: int) -> tuple[Entry, list[Entry]]:
    """Add a segment with one block that is never freed, and their two events."""
    frames = [_frame(one) for one in SHARE]
    at = {"addr": SHARE_AT, "size": size, "stream": 0, "time_us": time_us, "frames": frames}
    block = {
        "address": SHARE_AT,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "frames": frames,
    }
    segment = {
        "device": device,
        "address": SHARE_AT,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "requested_size": size,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }
    return segment, [{"action": "segment_alloc", **at}, {"action": "alloc", **at}]


def _frame(one: tuple[str, str, int]) -> Entry:
    name, file, line = one
    return {"filename": FILE.format(file), "line": line, "name": name}


def _peak(events: list[Entry], begins: str, ends: str) -> int:
    """Return the peak of a recording that starts before the first allocation."""
    now = most = 0
    for event in events:
        now += event["size"] * ((event["action"] == begins) - (event["action"] == ends))
        most = max(most, now)
    return most


def _integer(value: int) -> bytes:
    """Pickle a number of 17 to 31 bits."""
    return b"J" + value.to_bytes(4, "little", signed=True)


def parse_arguments(arguments: list[str] | None) -> tuple[Path, Path | None, Fleet]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=300)
    parser.add_argument("--kb", default="100", help="sizes of files in kB, separated by commas")
    parser.add_argument("--stages", type=int, default=4, help="of the pipeline")
    parser.add_argument("--odd", type=int, help="the odd rank; -1 for none")
    parser.add_argument("--odd-share", type=float, default=0.25, help="of its peak, on top")
    parser.add_argument("--broken", type=int, default=0, help="how many files are")
    parser.add_argument("--nested", action="store_true", help="a folder for each host")
    parser.add_argument("--truth", type=Path, help="write it to this file instead of printing it")
    asked = parser.parse_args(arguments)
    fleet = Fleet(
        ranks=asked.ranks,
        kb=tuple(int(one) for one in asked.kb.split(",")),
        stages=asked.stages,
        odd=asked.odd,
        odd_share=asked.odd_share,
        broken=asked.broken,
        nested=asked.nested,
    )
    return asked.folder, asked.truth, fleet


def main(arguments: list[str] | None = None) -> int:
    folder, told, fleet = parse_arguments(arguments)
    begin = time.perf_counter()
    truth = json.dumps(make_fleet(folder, fleet), indent=1) + "\n"
    if told is None:
        sys.stdout.write(truth)
    else:
        told.write_text(truth, encoding="utf-8")
    print(f"{folder}: {fleet.ranks} files in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
