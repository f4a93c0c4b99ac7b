"""Runs all cases with one torch and says how many figures are equal: `python -m tests.truth`.

python -m tests.truth --python VENV/bin/python [--only TEXT] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import memreplay
from memreplay.dryrun import cards
from memreplay.dryrun.runtime import lay_out
from tests.truth.cases import A100, CASES, RECORDED_WITH_OLDER, WITH_OLDER, Case
from tests.truth.compare import Figure, compare
from tests.truth.noted import compare_recorded
from tests.truth.settings import compare_settings

HERE = Path(__file__).parent
INSIDE = Path(memreplay.__file__).parent / "dryrun" / "inside"
PACKAGE = Path(memreplay.__file__).parent.parent  # of programs that record themselves
SHOWN = 10
SETTINGS = "settings as text"  # that name chooses them


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
    }
    settings = asked.only in SETTINGS and not asked.few  # which follow the newest
    if not cases and not settings:
        print("no case has such a name")
        return 0 if asked.few else 1
    figures = estimated = 0
    ran, failed = 0, []
    texts = ""
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        environment, cuda = run_dry(asked.python, folder)
        with start(asked.python, folder, list(cases.values()), environment, cuda) as server:
            assert server.stdout
            for line in server.stdout:
                ended = json.loads(line)
                ran += 1
                case = cases[ended["name"]]
                if ended["status"]:
                    failed.append(case.name)
                    print(f"{case.name}: ended with {ended['status']}")
                    continue
                snapshot = folder / f"{ended['pid']}.pickle"
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
                    took = f"{ended['seconds']:.1f} s, process {ended['pid']}"
                    print(f"{case.name}: {compared.equal} equal, {took}")
                if compared.wrong:
                    failed.append(case.name)
                    tell(case.name, compared.wrong)
        version = torch_version(folder)
        if settings:
            environment |= cards.environment(cards.find(A100), cuda=cuda)
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
    if failed or server.returncode or ran < len(cases):
        print(f"{len(failed) + len(cases) - ran} cases failed: {'; '.join(failed)}")
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment that has torch")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--few", action="store_true", help="some cases, for one more torch")
    parser.add_argument("--keep", type=Path, help="write snapshots there, and leave them")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    return parser.parse_args()


def run_dry(python: str, folder: Path) -> tuple[dict[str, str], int]:
    """The environment in which this Python's torch runs dry, and its CUDA."""
    # Not imported: it would look for NVIDIA's libraries.
    asked = "from importlib.util import find_spec; print(find_spec('torch').origin)"
    torch = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True)
    libraries = folder / "libraries"
    libraries.mkdir(exist_ok=True)
    runtime = lay_out(Path(torch.stdout.strip()).parent, libraries)
    environment = {
        **os.environ,
        "LD_PRELOAD": os.pathsep.join(map(str, runtime.preload)),
        "PYTHONPATH": os.pathsep.join(map(str, (INSIDE, HERE.parent.parent, PACKAGE))),
        "MEMREPLAY_DRYRUN": str(folder),
        "MEMREPLAY_DRYRUN_CARD": str(runtime.preload[0]),
        "MEMREPLAY_DRYRUN_MORE": str(runtime.preload[1]),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    return environment, runtime.cuda


def start(
    python: str, folder: Path, cases: list[Case], environment: dict[str, str], cuda: int
) -> subprocess.Popen[str]:
    """The server, with all that it is to run."""
    lines = folder / "cases"
    with lines.open("w", encoding="utf-8") as file:
        for case in cases:
            json.dump(case.told(cuda), file)
            file.write("\n")
    with lines.open(encoding="utf-8") as file:
        return subprocess.Popen(
            [python, "-m", "tests.truth.server"],
            stdin=file,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )


def tell(name: str, wrong: list[Figure]) -> None:
    """What differs, the first of it."""
    print(f"{name}: {len(wrong)} figures differ")
    for one in wrong[:SHOWN]:
        print(f"  {one.what}: PyTorch {one.truth}, memreplay {one.memreplay}")


def torch_version(folder: Path) -> str:
    for path in folder.glob("*.json"):
        return str(json.loads(path.read_text(encoding="utf-8"))["torch"])
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
