"""The fuzzer's command line: `python -m tests.fuzz --seconds 180`, or with files to check again."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import zlib
from pathlib import Path

from tests.conftest import corpus_files
from tests.fuzz.check import check, check_against_python
from tests.fuzz.inputs import KINDS, Inputs
from tests.fuzz.seeds import seeds
from tests.fuzz.supervise import Allowed, Finding, Tally, minimised, run

CRASHES = Path(__file__).parent / "crashes"
TOLD = ("read", "salvaged", "found")
AGAIN = "make fuzz FUZZ_ARGS={}"


def checked(data: bytes) -> str:
    outcome = check(data)
    if zlib.crc32(data, 1) % 4 == 0:
        check_against_python(data, outcome)
    return outcome


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="check these, and make no inputs")
    parser.add_argument("--seed", type=int, default=0, help="other inputs (0)")
    parser.add_argument("--first", type=int, default=0, help="begin with input number N (0)")
    parser.add_argument("--inputs", type=int, default=10**12, help="so many at the most")
    parser.add_argument("--seconds", type=float, default=180, help="so long at the most (180)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--crashes", type=Path, default=CRASHES, help="where findings are kept")
    options = parser.parse_args(arguments)
    if options.files:
        return again(options.files)

    allowed = Allowed()
    found = seeds(corpus_files())
    print(
        f"{len(found.pickles)} pickles, {len(found.texts)} JSON texts and {len(found.large)} large "
        f"inputs to begin with; seed {options.seed}",
        flush=True,
    )
    tally = run(
        Inputs(found, options.seed),
        checked,
        inputs=options.inputs,
        seconds=options.seconds,
        workers=options.workers,
        first=options.first,
        allowed=allowed,
        on_finding=lambda finding: keep(finding, finding.data, options.crashes),
        on_progress=progress,
    )
    for finding in tally.findings.values():
        shorten(finding, options.crashes, allowed)
    print(table(tally))
    return 1 if tally.findings else 0


def again(files: list[Path]) -> int:
    """Check files again, each in a separate process."""
    worst = 0
    for path in files:
        data = path.read_bytes()
        tally = run(lambda _, data=data: ("file", data), checked, inputs=1)  # type: ignore[misc]
        for finding in tally.findings.values():
            print(f"{path}: {finding.signature}\n{finding.text}")
            worst = 1
        for _, outcome in tally.counts:
            print(f"{path}: {outcome}")
    return worst


def keep(finding: Finding, data: bytes, folder: Path) -> None:
    """Save an input, and print how to reproduce it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    print(f"\n*** {finding.signature}")
    if data is finding.data:
        print(finding.text.rstrip()[-6000:])
    print(f"input {finding.number} ({finding.kind}), {len(data)} bytes")
    print(f"again: {AGAIN.format(os.path.relpath(path))}\n", flush=True)


def shorten(finding: Finding, folder: Path, allowed: Allowed) -> None:
    """Save the input again, minimised."""
    shorter = minimised(finding, checked, allowed)
    if shorter != finding.data:
        keep(finding, shorter, folder)


def progress(tally: Tally) -> None:
    rate = tally.inputs / tally.seconds
    print(f"{tally.inputs:,} inputs in {tally.seconds:,.0f} s, {rate:,.0f} a second", flush=True)


def table(tally: Tally) -> str:
    """Return a table of outcomes by kind of input; all of memreplay's own errors share a column."""
    lines = [f"{'':20}" + "".join(f"{head:>11}" for head in ("inputs", *TOLD, "refused"))]
    kinds = {kind for kind, _ in tally.counts}
    for kind in [*KINDS, *sorted(kinds - set(KINDS))]:
        outcomes = {outcome: n for (of, outcome), n in tally.counts.items() if of == kind}
        row = [outcomes.get(name, 0) for name in TOLD]
        whole = sum(outcomes.values())
        lines.append(f"{kind:20}" + "".join(f"{n:>11,}" for n in (whole, *row, whole - sum(row))))
    rate = tally.inputs / max(tally.seconds, 0.001)
    lines.append(f"{tally.inputs:,} inputs in {tally.seconds:,.0f} s, {rate:,.0f} a second")
    lines.append(f"{len(tally.findings)} findings, {tally.repeats} more of the same")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
