"""Run libFuzzer: `ci/guided --seconds 600` builds what it needs first."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.guided import corpus
from tests.guided.dictionary import dictionary
from tests.guided.driver import AGAIN
from tests.guided.targets import TARGETS

ROOT = Path(__file__).parents[2]
CRASHES = ROOT / "tests/fuzz/crashes"
LONGEST = 8 << 10  # longest input, in bytes
MOST = 20  # findings per target
# ASan records where memory was allocated and delays reusing freed memory; reducing both is faster.
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:malloc_context_size=5:"
    "allocator_may_return_null=1:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
JUDGED = re.compile(r"judged: \{'went on': (\d+), 'refused': (\d+)\}")


@dataclass
class Tally:
    """One target's results."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    judged: int = 0
    refused: int = 0
    edges: int = 0
    kept: int = 0
    found: list[str] = field(default_factory=list)

    def row(self) -> str:
        rate = self.inputs / max(self.seconds, 1)
        went_on = 1 - self.refused / max(self.judged, 1) if self.judged else 0
        cells = (
            self.inputs,
            round(self.seconds),
            round(rate),
            self.edges,
            self.kept,
            len(self.found),
        )
        return f"{self.target:12}" + "".join(f"{cell:>12,}" for cell in cells) + f"{went_on:>12.0%}"


HEAD = f"{'target':12}" + "".join(
    f"{head:>12}"
    for head in ("inputs", "seconds", "a second", "edges", "corpus", "findings", "went on")
)


@dataclass(frozen=True)
class Fuzzer:
    """Starts Python with the sanitized build."""

    build: Path
    preload: str

    def lines(self, target: str, *arguments: str) -> Iterator[str]:
        """Run libFuzzer; yield its output line by line, then `exit CODE`."""
        again = self.build / f"again-{target}"
        given = {
            "LD_PRELOAD": self.preload,
            "PYTHONPATH": f"{self.build / 'lib'}:{ROOT}",
            **SANITIZERS,
        }
        words = [f"{name}={value}" for name, value in given.items()]
        words += [sys.executable, "-m", "tests.guided.driver", target]
        again.write_text(f'#!/bin/sh\nexec env {shlex.join(words)} "$@"\n')
        again.chmod(0o755)
        with subprocess.Popen(
            [again, *arguments],
            env=os.environ | {AGAIN: str(again)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield line.decode(errors="replace").rstrip()
        yield f"exit {process.returncode}"

    def look(self, target: str, folder: Path, seconds: float, words: Path) -> Tally:
        """Search for this many seconds, continuing after findings."""
        tally = Tally(target)
        end = time.monotonic() + seconds
        CRASHES.mkdir(parents=True, exist_ok=True)
        while (left := int(end - time.monotonic())) > 0 and len(tally.found) < MOST:
            began = time.monotonic()
            self._round(tally, folder, left, words)
            tally.seconds += time.monotonic() - began
        tally.kept = sum(1 for _ in folder.iterdir())
        return tally

    def _round(self, tally: Tally, folder: Path, seconds: int, words: Path) -> None:
        """Run one process until its time is up or it finds something."""
        said: list[str] = []
        judged = (0, 0)
        code = 0
        options = (
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST}",
            f"-dict={words}",
            f"-artifact_prefix={CRASHES}/",
            "-timeout=30",
            "-rss_limit_mb=3000",
            "-malloc_limit_mb=500",
            "-print_final_stats=1",
            "-use_value_profile=1",
            "-reload=0",
        )
        for line in self.lines(tally.target, *options, str(folder)):
            said.append(line)
            if found := JUDGED.match(line):
                judged = (int(found[1]), int(found[2]))
            elif found := re.search(r"cov: (\d+)", line):
                tally.edges = max(tally.edges, int(found[1]))
            elif found := re.match(r"stat::number_of_executed_units: (\d+)", line):
                tally.inputs += int(found[1])
            elif found := re.match(r"exit (-?\d+)", line):
                code = int(found[1])
            del said[:-400]
        tally.judged += sum(judged)
        tally.refused += judged[1]
        if code:
            report = [
                line for line in said if not line.startswith(("#", "judged:", "NEW", "REDUCE"))
            ]
            tally.found.append("\n".join(report))
            print(f"\n*** {tally.target}\n" + "\n".join(report[-80:]), flush=True)

    def minimised(self, target: str, folder: Path) -> list[bytes]:
        """Return the smallest set of inputs with the same coverage as the folder's."""
        with tempfile.TemporaryDirectory(prefix="memreplay-guided-") as small:
            for line in self.lines(target, "-merge=1", f"-max_len={LONGEST}", small, str(folder)):
                if line.startswith("exit ") and line != "exit 0":
                    raise SystemExit(f"{target}: cannot be minimised: {line}")
            inputs = [path.read_bytes() for path in sorted(Path(small).iterdir())]
        if not inputs:
            raise SystemExit(f"{target}: nothing is left when it is minimised")
        return inputs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ci/guided", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="where lib/ is")
    parser.add_argument("--preload", required=True, help="the sanitizers and libFuzzer")
    parser.add_argument("--seconds", type=float, default=180, help="for each target (180)")
    parser.add_argument("--targets", default=",".join(TARGETS), help="only these: read,text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once")
    parser.add_argument("--folder", type=Path, help="where inputs are gathered; a new one")
    parser.add_argument("--keep", action="store_true", help="keep what reaches more, minimised")
    options = parser.parse_args(arguments)

    fuzzer = Fuzzer(options.build.resolve(), options.preload)
    with tempfile.TemporaryDirectory(prefix="memreplay-guided-") as scratch:
        folder: Path = options.folder or Path(scratch)
        words = Path(scratch) / "words"
        words.write_text(dictionary())

        def looked(target: str) -> Tally:
            corpus.spread(corpus.beginning(target), folder / target)
            tally = fuzzer.look(target, folder / target, options.seconds, words)
            if options.keep:
                inputs = fuzzer.minimised(target, folder / target)
                corpus.keep(target, inputs)
                tally.kept = len(inputs)
            print(tally.row(), flush=True)
            return tally

        with ThreadPoolExecutor(options.jobs) as pool:
            tallies = list(pool.map(looked, options.targets.split(",")))
    print("\n" + HEAD)
    for tally in tallies:
        print(tally.row())
    print(f"{sum(tally.inputs for tally in tallies):,} inputs")
    return any(tally.found for tally in tallies)


if __name__ == "__main__":
    sys.exit(main())
