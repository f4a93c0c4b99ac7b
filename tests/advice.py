"""Check advice by simulation: `python -m tests.advice [--corpus FOLDER] [FILE...]`.

`report` and `oom` run on each file (the corpus, the examples), and on programs of the allocator
model. Their advice about settings is compared with `simulate` and, for the programs, with a second
run of the model with that setting. All of them must agree. Advice to recompute activations is
compared with `simulate --checkpoint`, which must save as much or, because it also recomputes
activations that no backward pass needs, more.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import memreplay as mr
from memreplay.analysis.advising.settings import LEAST_BYTES, LEAST_SHARE, LITTLE_SHARE
from memreplay.analysis.simulating.editing import Change, Editor
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.result import Oom, Remedy
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.errors import MemreplayError
from memreplay.snapshot.simulated import Simulated
from tests import build
from tests.allocator_blocks import Settings
from tests.allocator_strategies import SETTINGS
from tests.build import Snapshot
from tests.simulated import modelled

ROOT = Path(__file__).parents[1]
PROGRAMS = 100
_PICKLE = re.compile(r"\.pickle(\.gz)?$")
EXPANDABLE = "expandable_segments:True"
KINDS = ("default", "crowded", "roundup", "max split, crowded")


class Checked:
    """The advice given, and the part that a simulation contradicts."""

    def __init__(self) -> None:
        self.said: Counter[str] = Counter()
        self.wrong: list[str] = []

    def check(self, name: str, what: str, right: bool, why: str) -> None:
        self.said[what] += 1
        if not right:
            self.wrong.append(f"{name}: {what}: {why}")

    def file(self, name: str, snap: mr.Snapshot) -> None:
        """Run `report` and `oom` on the file, then simulate their advice."""
        for device in overview(snap).devices:
            replay = snap.replay(device.device)
            for one in device.advice:
                if one.name == "checkpoint":
                    self._checkpoint(name, snap, device, one)
                if not one.name.startswith("expandable_segments"):
                    continue
                found = replay.simulate(EXPANDABLE)
                assert device.reserved_peak_bytes is not None
                saved = device.reserved_peak_bytes - found.outcome.reserved_peak_bytes
                fails = found.stopped_event is not None
                least = max(LEAST_BYTES, LEAST_SHARE * device.reserved_peak_bytes)
                if one.name == "expandable_segments":
                    right = not fails and saved >= one.saved_bytes >= least
                else:
                    right = fails or saved <= LITTLE_SHARE * one.of_bytes
                self.check(name, one.name, right, f"{saved} saved, fails: {fails}")
        for failing in oom_report(snap, oom=0).devices:
            replay = snap.replay(failing.device)
            for oom in failing.ooms:
                self._oom(name, replay, oom)

    def _checkpoint(
        self, name: str, snap: mr.Snapshot, device: DeviceOverview, one: Advice
    ) -> None:
        replay = snap.replay(device.device)
        change = Change(twice=True, categories=tuple(one.word.split(", ")))
        found = replay.simulate(edit=Editor(snap, change).edit(replay)).outcome
        saved = device.peak.peak_bytes - found.requested_peak_bytes
        right = one.saved_bytes <= min(saved, one.bytes)
        self.check(name, one.name, right, f"{one.saved_bytes} claimed, {saved} saved")

    def _oom(self, name: str, replay: mr.Replay, oom: Oom) -> None:
        for remedy in oom.remedies:
            if remedy.settings:
                found = replay.simulate(remedy.settings)
                stopped = found.stopped_event
                served = oom.event_index not in found.failed_events
                served = served and (stopped is None or stopped > oom.event_index)
                later = min(
                    (one for one in found.failed_events if one > oom.event_index), default=None
                )
                right = served and later == remedy.fails_next
                self.check(name, f"oom {remedy.name}: fits", right, f"{served}, then {later}")
            elif remedy.is_simulated and remedy.name == "expandable_segments":
                found = replay.simulate(EXPANDABLE)
                right = oom.event_index in found.failed_events or not _known(found, oom.event_index)
                self.check(name, f"oom {remedy.name}: fails", right, str(found.failed_events))
            elif remedy.name == "less_live" and oom.more_bytes is not None:
                total = replay.recorded.program_memory_bytes
                if total is None:
                    continue
                more = replay.simulate(program_memory=total + oom.more_bytes)
                right = oom.event_index not in more.failed_events
                self.check(name, "oom free more: fits", right, str(more.failed_events))
                if oom.to_end_bytes is None:
                    continue
                more = replay.simulate(program_memory=total + oom.to_end_bytes)
                right = not more.failed_events
                self.check(name, "oom to the end: fits", right, str(more.failed_events))

    def program(self, seed: int, kind: str) -> None:
        """Check a program on the allocator model: run `report` and `oom`, then run it again with
        the advice applied.
        """
        settings = SETTINGS[kind]
        name = f"program {seed}, {kind}"
        # If empty_cache frees nothing, it leaves no event.
        snapshot, run = modelled(settings, seed, 200, ("empty cache",))
        data = build.dump(snapshot)
        self.file(name, mr.open(data))
        other = replace(settings, expandable_segments=True)
        again = None
        for device in overview(mr.open(data)).devices:
            for one in device.advice:
                if one.name == "expandable_segments" and not one.word:
                    again = again or modelled(other, seed, 200, ("empty cache",))
                    saved = run.peak - again[1].peak
                    self.check(name, "run again", saved == one.saved_bytes, f"{saved} saved")
            if device.oom is not None and device.oom.ooms:
                for remedy in device.oom.ooms[0].remedies:
                    self._again(name, snapshot, seed, settings, remedy)

    def _again(
        self, name: str, snapshot: Snapshot, seed: int, settings: Settings, remedy: Remedy
    ) -> None:
        if remedy.name != "expandable_segments" or not remedy.is_simulated:
            return
        other = replace(settings, expandable_segments=True)
        again, _ = modelled(other, seed, 200, ("empty cache",))
        failed, later = first_failure(snapshot), first_failure(again)
        assert failed is not None
        right = remedy.enough == (later is None or later > failed)
        self.check(name, f"oom {remedy.name}: run again", right, f"{failed}, then {later}")


def _known(found: Simulated, event: int) -> bool:
    stopped = found.stopped_event
    return stopped is None or stopped >= event


def first_failure(snapshot: Snapshot) -> int | None:
    """Return the line of the first failed request."""
    for event in snapshot["device_traces"][0]:
        if event["action"] == "oom":
            line: int = event["frames"][0]["line"]
            return line
    return None


def files(asked: argparse.Namespace) -> Iterator[Path]:
    """Return all inputs to run."""
    yield from asked.files
    if asked.corpus:
        yield from sorted(one for one in asked.corpus.iterdir() if _PICKLE.search(one.name))
    yield from sorted((ROOT / "examples").glob("*.pkl.gz"))
    yield from sorted((ROOT / "examples").glob("*/*.pkl.gz"))
    yield from sorted((ROOT / "tests" / "data").glob("*.pkl.gz"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--corpus", type=Path, default=os.environ.get("MEMREPLAY_CORPUS"))
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    asked = parser.parse_args()
    asked.corpus = Path(asked.corpus) if asked.corpus else None
    checked = Checked()
    read = 0
    for path in files(asked):
        try:
            checked.file(path.name, mr.open(path))
            read += 1
        except MemreplayError as error:  # noqa: PERF203
            print(f"{path.name}: {error}")
    for seed in range(asked.programs):
        checked.program(seed, KINDS[seed % len(KINDS)])
    print(f"{read} files and {asked.programs} programs:")
    for what, count in sorted(checked.said.items()):
        print(f"  {count:4} {what}")
    print(f"{sum(checked.said.values())} statements, {len(checked.wrong)} contradicted")
    for line in checked.wrong:
        print(f"  {line}")
    return 1 if checked.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
