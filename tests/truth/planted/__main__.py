"""Run planted programs and print how many verdicts are right: `python -m tests.truth.planted`.

python -m tests.truth.planted --python VENV/bin/python [--only TEXT ...] [--kinds KIND ...]

With --gpu, they run on this machine's GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from memreplay.dryrun import cards
from tests.truth.cases import A100
from tests.truth.planted.judge import ERROR, VERDICTS, Judged, judge
from tests.truth.running import INSIDE, TorchEnvironment

KINDS = ("recorder", "python", "bare", "late", "ring")
KNOWN = Path(__file__).with_name("known.txt")
"""What is still wrong. Any other wrong verdict fails the run, and so does one that is right now."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the Python of an environment with torch")
    parser.add_argument(
        "--only", nargs="*", default=[], help="only programs with one of these in the name"
    )
    parser.add_argument("--kinds", nargs="*", default=KINDS, help="kinds of recordings, or short")
    parser.add_argument("--gpu", action="store_true", help="run on this machine's GPU")
    parser.add_argument("--keep", type=Path, help="keep the snapshots in this folder")
    parser.add_argument("--again", action="store_true", help="only judge the recordings in --keep")
    parser.add_argument("--every", type=int, default=1, help="only every Nth recording")
    parser.add_argument(
        "--at-once", type=int, default=2, help="number of programs at the same time"
    )
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        if asked.keep:
            asked.keep.mkdir(exist_ok=True, parents=True)
        judged, failed = again(asked) if asked.again else run(Path(temporary), asked)
    known = known_wrong()
    for one in sorted(judged):
        note = " (known)" if (one.name, one.kind) in known else ""
        for verdict, words in one.wrong:
            print(f"{one.name}, {one.kind}: {verdict}: {words}{note}")
    print(*table(judged, asked.kinds), sep="\n")
    wrong = sum(bool(one.wrong) for one in judged)
    print(
        f"{len(judged) - wrong} of {len(judged)} recordings of"
        f" {len({one.name for one in judged})} programs are judged right,"
        f" {time.monotonic() - began:.0f} s"
    )
    new = [one for one in judged if one.wrong and (one.name, one.kind) not in known]
    mended = [one for one in judged if not one.wrong and (one.name, one.kind) in known]
    for one in mended:
        print(f"{one.name}, {one.kind}: it's right now; take it out of {KNOWN.name}")
    # With another GPU or PyTorch version, the known errors may differ.
    return int(bool(new or failed or not judged or (mended and not asked.gpu)))


def known_wrong() -> set[tuple[str, str]]:
    """Return the recordings that memreplay is known to judge wrongly, as (program, kind) pairs."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    found = (line.partition("#")[0].split() for line in lines)
    return {(name, kind) for name, *kinds in filter(None, found) for kind in kinds}


def run(folder: Path, asked: argparse.Namespace) -> tuple[list[Judged], int]:
    torch = TorchEnvironment(asked.python, folder, gpu=asked.gpu)
    environment = torch.environment
    if not asked.gpu:
        environment |= cards.environment(cards.find(A100), cuda=torch.cuda)
    # memreplay's recorder must not notice that this is a dry run, and none of the dry run's own
    # code is recorded.
    environment = {k: v for k, v in environment.items() if not k.startswith("MEMREPLAY_DRYRUN")}
    environment["PYTHONPATH"] = environment["PYTHONPATH"].removeprefix(f"{INSIDE}{os.pathsep}")
    command = [asked.python, "-m", "tests.truth.planted.server", str(folder)]
    command += ["--only", *asked.only, "--kinds", *asked.kinds, "--at-once", str(asked.at_once)]
    command += ["--every", str(asked.every)]
    judged = []
    failed = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        expected = int(process.stdout.readline() or 0)
        for line in process.stdout:
            ended = json.loads(line)
            expected -= 1
            if ended["status"]:
                wrong = ((ERROR, f"ended with {ended['status']}"),)
                judged.append(Judged(ended["name"], ended["kind"], wrong, False, False))
                continue
            snapshot = folder / f"{ended['pid']}.pickle"
            judged.append(judge(snapshot))
            for kind in (".pickle", ".truth.json"):
                if asked.keep:
                    name = f"{ended['name']}.{ended['kind']}{kind}"
                    shutil.move(snapshot.with_suffix(kind), asked.keep / name)
                else:
                    snapshot.with_suffix(kind).unlink()
        failed = process.wait()
    return judged, failed + expected


def again(asked: argparse.Namespace) -> tuple[list[Judged], int]:
    """Judge the recordings that an earlier run kept."""
    names = [path.name.rpartition(".")[0] for path in sorted(asked.keep.glob("*.*.pickle"))]
    chosen = [
        name
        for name in names
        if name.rpartition(".")[2] in asked.kinds
        and (not asked.only or any(text in name for text in asked.only))
    ]
    return [judge(asked.keep / f"{name}.pickle") for name in chosen], 0


def table(judged: list[Judged], kinds: list[str]) -> list[str]:
    """Print the number of recordings by kind and verdict."""
    columns = ("right", *VERDICTS, "of", "unsure", "steps guessed")
    rows = [["", *columns]]
    for kind in kinds:
        ours = [one for one in judged if one.kind == kind]
        counts = Counter(
            verdict for one in ours for verdict in {verdict for verdict, _ in one.wrong}
        )
        right = sum(not one.wrong for one in ours)
        row = [right, *(counts[verdict] for verdict in VERDICTS), len(ours)]
        row += [sum(one.unsure for one in ours), sum(one.guessed for one in ours)]
        rows.append([kind, *map(str, row)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
