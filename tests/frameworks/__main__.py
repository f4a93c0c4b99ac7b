"""Record real frameworks in a dry run, and print what each left:

    python -m tests.frameworks --python ENV/bin/python [NAME …]

ENV has PyTorch's CUDA build and the frameworks. Not part of CI, because they are gigabytes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import memreplay as mr
from tests.conftest import ROOT


class Framework(NamedTuple):
    """A framework's program, and what it has to leave."""

    package: str
    ranks: int = 1
    steps: int | None = 4
    """Steps in each rank's snapshot; None if the program doesn't step."""
    fails: bool = False
    """Whether some of its batches don't fit, so that it leaves snapshots of these, too."""
    command: tuple[str, ...] = ()
    """What to run instead of a function in programs.py; PYTHON and FOLDER are replaced."""


TITAN = (
    *("PYTHON", "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "torchtitan.train"),
    *("--job.dump_folder", "FOLDER", "--model.name", "llama3", "--model.flavor", "debugmodel"),
    *("--model.hf_assets_path", "FOLDER/assets", "--training.steps", "4"),
    *("--training.local_batch_size", "2", "--training.seq_len", "256"),
    *("--training.dataset_path", "FOLDER/assets/data", "--training.dataset", "c4_test"),
    *("--activation_checkpoint.mode", "selective"),
    *("--experimental.custom_import", "memreplay.integrations.torchtitan"),
    *("--model.converters", "memreplay"),
)
FRAMEWORKS = {
    "transformers": Framework("transformers"),
    "transformers_oom": Framework("transformers", steps=2, fails=True),
    "trl": Framework("trl", steps=2),
    "lightning": Framework("lightning"),
    "lightning_oom": Framework("lightning", steps=2, fails=True),
    "accelerate": Framework("accelerate", steps=2),
    "accelerate_oom": Framework("accelerate", steps=None, fails=True),
    "torchtitan": Framework("torchtitan", ranks=2, steps=2, command=TITAN),
    "torchtune": Framework("torchtune", steps=2),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("names", nargs="*", default=list(FRAMEWORKS))
    given = parser.parse_args(arguments)
    failed = 0
    print("program           version      ranks steps  events  OOM  result")
    for name in given.names:
        words = row(name, FRAMEWORKS[name], given.python)
        failed += not words.endswith("fine")
        print(words, flush=True)
    return int(bool(failed))


def row(name: str, framework: Framework, python: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        output = run(name, framework, python, folder)
        version = re.search(r"^version (.*)$", output, re.MULTILINE)
        files = sorted(Path(folder).glob("memory*.pickle*"))
        failures = [path for path in files if ".oom" in path.name]
        ends = [path for path in files if path not in failures]
        steps, events = [], 0
        for path in ends:
            with mr.open(path) as snap:
                events += sum(map(snap.trace_events, snap.devices))
                steps.append(len(mr.steps(snap).devices[0].steps) if framework.steps else 0)
        fine = len(ends) == framework.ranks and bool(failures) == framework.fails
        fine = fine and set(steps) == {framework.steps or 0}
        if not fine:
            print(output, file=sys.stderr)
        said = version[1] if version else ""
        return (
            f"{name:17} {said:12} {len(ends):5} {max(steps, default=0):5} {events:7,}"
            f" {len(failures):4}  {'fine' if fine else 'FAILED'}"
        )


def run(name: str, framework: Framework, python: str, folder: str) -> str:
    """Run the program in a dry run, and return its output."""
    program = framework.command or ("PYTHON", "-m", "tests.frameworks.programs", name, "FOLDER")
    if framework.command:
        assets(python, folder)
    command = [
        one.replace("PYTHON", python) if one == "PYTHON" else one.replace("FOLDER", folder)
        for one in program
    ]
    asked = f"import importlib.metadata as m; print('version', m.version('{framework.package}'))"
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "MEMREPLAY_OPTIONS": "steps=2-3" if framework.command else "",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    dryrun = (sys.executable, "-m", "memreplay", "dryrun", "--gpu", "A10G", "--force")
    done = [
        subprocess.run(
            one, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        for one in (
            (python, "-c", asked),
            (*dryrun, "-o", f"{folder}/dry.pickle", "--", *command),
        )
    ]
    return "".join(one.stdout + one.stderr for one in done)


def assets(python: str, folder: str) -> None:
    """Write torchtitan's inputs, in a process that doesn't load torch."""
    subprocess.run(
        [python, "-m", "tests.frameworks.assets", f"{folder}/assets"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
