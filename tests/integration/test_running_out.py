"""A program that runs out of memory leaves a snapshot, however it fails. In a dry run, with a real
torch, which ci/truth installs.
"""

from __future__ import annotations

import gzip
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

RANKS = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
# For each program: the snapshots whose last event is the failed request, and others.
FAILED = {
    "uncaught": ({"snap.pickle"}, set()),
    "in_with": ({"snap.pickle"}, set()),
    "thread": ({"snap.oom.pickle"}, {"snap.pickle"}),
    "backward": ({"snap.pickle"}, set()),
    # 256, 128, 64, 32 and 16 GiB don't fit on a card with 14.6 GiB
    "retries": (
        {"snap.oom.pickle", "snap.oom-1.pickle", "snap.oom-2.pickle"},
        {"snap.pickle"},
    ),
    "gives_up": ({"snap.oom.pickle", "snap.oom-1.pickle", "snap.pickle"}, set()),
    "exits": ({"snap.oom.pickle"}, {"snap.pickle"}),
    "exits_at_once": ({"snap.oom.pickle"}, {"snap.pickle"}),
    "full_disk": ({"snap.pickle.gz"}, set()),
    "no_folder": ({"tmp/snap.oom.pickle.gz"}, set()),
    "one_rank": ({"snap.rank1.pickle"}, {"snap.rank0.pickle"}),
    "spawned": ({"snap.rank1.oom.pickle"}, {"snap.rank0.pickle", "snap.rank1.pickle"}),
}


def ends_in_failure(path: Path) -> bool:
    """Return whether the last event is a failed request."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return bool(pickle.loads(data)["device_traces"][0][-1]["action"] == "oom")


@pytest.mark.parametrize("name", FAILED)
def test_failure_leaves_a_snapshot(name: str, tmp_path: Path) -> None:
    failed, others = FAILED[name]
    (tmp_path / "tmp").mkdir()
    program = (*(RANKS if name == "one_rank" else ()), "-m", "tests.truth.failing", name)
    dryrun = (sys.executable, "-m", "memreplay", "dryrun", "--gpu", "T4", "-o", "dry/out.pickle")
    (tmp_path / "dry").mkdir()
    done = subprocess.run(
        [*dryrun, "--", PYTHON, *program],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "TMPDIR": str(tmp_path / "tmp"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    output = done.stdout + done.stderr
    there = {
        str(path.relative_to(tmp_path)): path
        for path in (*tmp_path.glob("snap*"), *tmp_path.glob("tmp/snap*"))
    }
    assert set(there) == failed | others, output
    assert {one for one, path in there.items() if ends_in_failure(path)} >= failed, output
    # The log names each file, and the command to run.
    told = re.findall(r"out of memory: .*?; run: memreplay oom (\S+)", output)
    assert {str(Path(one).relative_to(tmp_path)) for one in told} >= failed
    if name == "retries":
        assert "fits 8" in output
