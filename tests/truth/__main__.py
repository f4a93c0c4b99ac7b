"""Run all cases with one version of torch, and print how many figures are equal: `python -m
tests.truth`.

python -m tests.truth --python VENV/bin/python [--only TEXT] [--keep FOLDER]

With --gpu, run on this machine's GPU, which leaves out some cases.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from memreplay.dryrun import cards
from tests.truth.against import write_index
from tests.truth.cases import A100, CASES, RECORDED_WITH_OLDER, WITH_OLDER
from tests.truth.compare import Figure, compare
from tests.truth.noted import compare_recorded
from tests.truth.running import Server
from tests.truth.settings import compare_settings

SHOWN = 10
SETTINGS = "settings as text"  # --only with this name selects them


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    few = {(program, settings, False) for program, settings in WITH_OLDER}
    few |= {(program, "", True) for program in RECORDED_WITH_OLDER}
    cases = {
        case.name: case
        for case in CASES
        if asked.only in case.name
        and (not asked.few or (case.program, case.settings, case.recorded) in few)
        and (not asked.gpu or case.on_a_card)
    }
    # memreplay follows the newest PyTorch's settings, and PyTorch reads settings without a GPU.
    settings = asked.only in SETTINGS and not (asked.few or asked.gpu)
    if not cases and not settings:
        print("no case has such a name")
        return 0 if asked.few else 1
    figures = estimated = 0
    ran, failed = 0, []
    texts = ""
    processes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            print(f"{folder} is not empty")
            return 2
        with Server(asked.python, folder, gpu=asked.gpu) as server:
            told = [
                case.on_gpu() if asked.gpu else case.told(server.cuda, asked.card)
                for case in cases.values()
            ]
            for ended in server.run(told):
                ran += 1
                case = cases[ended.name]
                if ended.status:
                    failed.append(case.name)
                    print(f"{case.name}: ended with {ended.status}")
                    continue
                processes[ended.name] = ended.pid
                snapshot = folder / f"{ended.pid}.pickle"
                try:
                    compared = (
                        compare_recorded(snapshot) if case.recorded else compare(case, snapshot)
                    )
                except Exception:
                    failed.append(case.name)
                    print(f"{case.name}:")
                    traceback.print_exc()
                    continue
                figures += compared.equal
                estimated += compared.estimated
                if asked.verbose:
                    took = f"{ended.seconds:.1f} s, process {ended.pid}"
                    print(f"{case.name}: {compared.equal} equal, {took}")
                if compared.wrong:
                    failed.append(case.name)
                    tell(case.name, compared.wrong)
        version = server.torch()
        if asked.keep:
            write_index(folder, processes)
        if settings:
            environment = server.environment | cards.environment(cards.find(A100), cuda=server.cuda)
            compared_texts = compare_settings(asked.python, environment)
            figures += compared_texts.equal
            texts = f" and {compared_texts.texts} texts of settings"
            for text, differing in compared_texts.wrong.items():
                failed.append(text)
                tell(text, differing)
    print(
        f"{figures:,} figures in {len(cases)} cases{texts} equal, torch {version}"
        f" ({estimated:,} that memreplay calls estimates not compared),"
        f" {time.monotonic() - began:.0f} s"
    )
    if failed or server.failed or ran < len(cases):
        print(f"{len(failed) + len(cases) - ran} cases failed: {'; '.join(failed)}")
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment that has torch")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--few", action="store_true", help="some cases, for one more torch")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--gpu", action="store_true", help="not dry: on this machine's card")
    where.add_argument("--card", default=A100, help="that which most cases are told they have")
    parser.add_argument("--keep", type=Path, help="write snapshots there, and leave them")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    return parser.parse_args()


def tell(name: str, wrong: list[Figure]) -> None:
    """Describe the first differences."""
    print(f"{name}: {len(wrong)} figures differ")
    for one in wrong[:SHOWN]:
        print(f"  {one.what}: PyTorch {one.truth}, memreplay {one.memreplay}")


if __name__ == "__main__":
    sys.exit(main())
