"""The full run: `python -m tests.graphs --seconds 600 --seed 1`.

To repeat that seed's input 4711: `--seed 1 --first 4711 --inputs 1`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.graphs.choosing import Seeded
from tests.graphs.inputs import KINDS, make
from tests.graphs.judging import judge

CRASHES = Path(__file__).parents[1] / "fuzz/crashes"
TOLD = ("replayed", "read", "no replay", "refused", "refused: limit", "read, not by pickle")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.graphs", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="other inputs (0)")
    parser.add_argument("--seconds", type=float, default=60, help="so long at the most (60)")
    parser.add_argument("--inputs", type=int, default=10**12, help="so many at the most")
    parser.add_argument("--first", type=int, default=0, help="begin with input number N (0)")
    parser.add_argument("--keep", type=Path, default=CRASHES, help="where wrong inputs are kept")
    parser.add_argument("--most", type=int, default=20, help="end after so many kinds of them (20)")
    options = parser.parse_args(arguments)
    counts: Counter[tuple[str, str]] = Counter()
    found: Counter[str] = Counter()
    began = told = time.monotonic()
    number = options.first
    # If an input crashes the process, its number is in this file.
    options.keep.mkdir(parents=True, exist_ok=True)
    noted_in = options.keep / f"graphs-{options.seed}-number"
    noted = os.open(noted_in, os.O_CREAT | os.O_WRONLY)
    while number < options.first + options.inputs and len(found) < options.most:
        now = time.monotonic()
        if now - began > options.seconds:
            break
        if now - told > 30:
            told = now
            print(f"{number - options.first:,} inputs, {len(found)} findings", flush=True)
        os.pwrite(noted, b"%12d\n" % number, 0)
        one = make(Seeded(options.seed << 40 | number))
        try:
            outcome = judge(one.data, sound=one.sound, called=one.called)
        except Exception as error:  # the reader and the judge can raise any exception
            outcome = "wrong"
            where = traceback.extract_tb(error.__traceback__)[-1]
            signature = f"{one.kind}: {type(error).__name__} {where.name}: {plain(error)}"
            found[signature] += 1
            if found[signature] == 1:
                print(f"*** input {number} of seed {options.seed}\n{signature}\n{error}"[:1500])
                print("".join(traceback.format_exception(error)[-3:])[:1500], flush=True)
                (options.keep / f"graphs-{options.seed}-{number}.pkl").write_bytes(one.data)
        counts[one.kind, outcome] += 1
        number += 1
    os.close(noted)
    noted_in.unlink()
    print(table(counts))
    seconds = time.monotonic() - began
    total = counts.total()
    print(f"{total:,} inputs in {seconds:,.0f} s, {total / max(seconds, 1e-3):,.0f} a second")
    for signature, n in found.most_common():
        print(f"{n:>8} {signature}")
    return 1 if found else 0


def plain(error: Exception) -> str:
    """Return an error's text without the parts that depend on its input."""
    text = str(error)
    if "(byte" in text:
        return text.partition(" (byte")[0][-80:]
    return re.sub(r"\d+", "N", text.partition(":")[0])[:80]


def table(counts: Counter[tuple[str, str]]) -> str:
    """Return a table of outcomes by kind of input."""
    heads = [*TOLD, *sorted({outcome for _, outcome in counts} - set(TOLD))]
    lines = [f"{'':18}" + "".join(f"{head:>21}" for head in heads)]
    for kind in KINDS:
        row = "".join(f"{counts[kind, head]:>21,}" for head in heads)
        lines.append(f"{kind:18}{row}")
    total = "".join(f"{sum(counts[kind, head] for kind in KINDS):>21,}" for head in heads)
    return "\n".join([*lines, f"{'all':18}{total}"])


if __name__ == "__main__":
    sys.exit(main())
