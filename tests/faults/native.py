"""The full run, `make memory`: each of the native modules' memory requests fails once."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import memreplay as mr
from memreplay.analysis.categories.rules import rule_set
from memreplay.engine.record import _tracker as tracker
from memreplay.engine.write._dump import dump
from memreplay.export.snapshots.cutting import cut
from memreplay.render.plain import render_plain
from memreplay.snapshot.conversion import as_json, convert
from memreplay.snapshot.retold import retold
from tests import build
from tests.conformance import accept
from tests.faults import allocations
from tests.fuzz import datasets
from tests.fuzz.commands import exports, questions
from tests.fuzz.programs import programs
from tests.fuzz.seeds import SMALL, recording
from tests.fuzz.writers import FORMS

ASKED = ("question", "export")  # the ways to run each work
Prepared = Callable[[], Callable[[], object]]


class Work(NamedTuple):
    """Work to run on each snapshot."""

    name: str
    prepared: Prepared


def readings(data: bytes) -> Iterator[Work]:
    """Return the ways to read an input."""
    yield Work("read", lambda: lambda: rows(mr.open(data)))
    yield Work("read, salvaged", lambda: lambda: rows(mr.open(data[:-9], salvage=True)))
    yield Work("read, a range", lambda: lambda: rows(mr.open(data, start=3, stop=40)))


def works(data: bytes, dice: int) -> Iterator[Work]:
    """Yield the work to run: reading, querying and writing everything in an input."""
    yield from readings(data)
    first = mr.open(data)
    for form in FORMS:
        yield Work(f"convert {form}", partial(_converting, data, form))
    yield Work("slice", lambda: partial(_sliced, mr.open(data)))
    yield Work("JSON", lambda: lambda: b"".join(as_json(data)))
    yield Work("page", lambda: partial(_page, mr.open(data)))
    yield Work("read, a dataset", partial(_unpacked, datasets.exported(first, "parquet")))
    for settings in ("", "expandable_segments:True"):
        yield Work(f"retold {settings}", partial(_retelling, data, settings))
    for name in ("events", "allocations", "usage", "stacks"):
        yield Work(f"table {name}", partial(_tabling, data, name))
    for at in range(len(questions(first, dice))):
        yield Work(f"question {at}", partial(_asking, data, dice, at))
    for at in range(len(exports(first, dice))):
        yield Work(f"export {at}", partial(_exporting, data, dice, at))


def rows(snap: mr.Snapshot) -> bytes:
    return b"".join(dump(snap.native, True))


def _converting(data: bytes, form: dict[str, Any]) -> Callable[[], object]:
    def work() -> bytes:
        made = bytearray()
        convert(data, made.extend, **form)
        return bytes(made)

    return work


def _sliced(snap: mr.Snapshot) -> bytes:
    return b"".join(cut(snap, min_bytes=64, strip="plumbing")[1])


def _page(snap: mr.Snapshot) -> bytes:
    return snap.view().html


def _unpacked(packed: bytes) -> Callable[[], object]:
    def work() -> bytes:
        with tempfile.TemporaryDirectory(prefix="memreplay-memory-") as folder:
            datasets.unpacked(packed, folder)
            return rows(mr.open(folder))

    return work


def _retelling(data: bytes, settings: str) -> Callable[[], object]:
    snap = mr.open(data)

    def work() -> bytes:
        found = {one: snap.replay(one).simulate(settings) for one in snap.devices}
        return b"".join(cut(retold(snap, found))[1])

    return work


def _tabling(data: bytes, name: str) -> Callable[[], object]:
    snap = mr.open(data)
    return lambda: mr.table(snap, name).to_arrow().to_pylist()


def _asking(data: bytes, dice: int, at: int) -> Callable[[], object]:
    asked = questions(mr.open(data), dice)[at]

    def work() -> object:
        report = asked.report()
        return render_plain(asked.text(report), width=100), asked.as_json(report)

    return work


def _exporting(data: bytes, dice: int, at: int) -> Callable[[], object]:
    export = exports(mr.open(data), dice)[at]
    return lambda: b"".join(export())


def recorded() -> object:
    """Record a program's allocations. The recorder raises no errors, but counts the allocations
    that it couldn't note.
    """
    tracker.begin(keep=64)
    trace = []
    try:
        for number in range(1_000):
            address = 512 * (1 + number % 400)
            tracker.enter(number % 5 + 1)
            tracker.track_alloc(address)
            trace.append({"action": "alloc", "addr": address})
            if number % 3 == 0:
                tracker.mark(address, tracker.INPUT, 0)
            tracker.leave(number % 5 + 1)
            if number % 4:
                tracker.track_free(address)
                trace.append({"action": "free_completed", "addr": address})
            if number % 50 == 0:
                tracker.step()
        found = tracker.joined([trace], tracker.count())
        if tracker.dropped():
            raise MemoryError
        return found
    finally:
        tracker.end()


def snapshots() -> dict[str, bytes]:
    """Return small snapshots that cover everything reports show: freed allocations, steps, failed
    requests.
    """
    made = {"made up": build.dump(recording(200))}
    for number, one in enumerate(programs()):
        made[f"program {number}"] = build.dump(one)
    return made


def tried(name: str, work: Work, most: int) -> tuple[int, int]:
    """Run all work; return the number of runs, and how many were wrong."""

    def prepared() -> Callable[[], object]:
        rule_set.cache_clear()  # so that each run compiles the rules
        return work.prepared()

    runs, wrong = allocations.struck(prepared, most)
    for one in wrong[:3]:
        print(f"*** {name}, {work.name}, {one}: {str(one.found)[:300]!r}", flush=True)
    return runs, len(wrong)


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.native", description=__doc__)
    parser.add_argument("--most", type=int, default=10**9, help="requests of each work (all)")
    parser.add_argument("--dice", type=int, default=2, help="number of ways to ask (2)")
    parser.add_argument("--short", action="store_true", help="4 requests of each work")
    parser.add_argument("--only", default="", help="works whose name contains this")
    options = parser.parse_args(arguments)
    if not allocations.is_possible():
        print("this needs modules that are built with sanitizers", file=sys.stderr)
        return 2
    todo = list(snapshots().items())
    if options.short:
        options.most = min(options.most, 4)
    total = failed = 0
    if options.only in "recorder":
        total, failed = tried("a program", Work("recorder", lambda: recorded), options.most)
        print(f"recorder: {total:,} runs", flush=True)
    if options.short:
        todo = todo[1:2] + todo[-3:-2]
    for name, data in todo:
        ways = [works(data, 7_919 * dice) for dice in range(options.dice)]
        chosen = [*ways[0], *(one for way in ways[1:] for one in way if one.name.startswith(ASKED))]
        runs = 0
        for work in chosen:
            if options.only in work.name:
                of_it, wrong = tried(name, work, options.most)
                runs += of_it
                failed += wrong
        print(f"{name}: {len(data):,} bytes, {runs:,} runs", flush=True)
        total += runs
    for name, case in accept.CASES.items():
        for work in readings(case) if len(case) <= SMALL else ():
            if options.only not in work.name:
                continue
            of_it, wrong = tried(name, work, 1 if options.short else options.most)
            total += of_it
            failed += wrong
    print(f"{total:,} runs, {failed:,} wrong")
    return int(failed > 0 or not total)


if __name__ == "__main__":
    sys.exit(main())
