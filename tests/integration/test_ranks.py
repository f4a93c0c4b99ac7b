"""`memreplay dryrun --rank` with a real torch, which ci/truth installs: a rank that runs without
others allocates exactly what it allocates in a run of all ranks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests.integration.dry import PYTHON, dryrun, marks

pytestmark = marks

PROGRAM = "tests/ranks/program.py"
WAYS = ("fsdp", "hsdp", "tp", "fsdp_tp", "pp", "ep", "cp", "small")


def run(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "8")
    done = dryrun(folder, "--json", *options, "--", PYTHON, *launcher, PROGRAM, *arguments)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["verdict"] == "fits", found["error"]
    return found


def events(report: dict[str, Any], rank: int) -> list[list[Any]]:
    """Return a rank's events: actions, sizes, and addresses counted from the first segment."""
    (file,) = (one["file"] for one in report["processes"] if one["rank"] == rank)
    found = mr.open(file).events
    first = int(found.address[found.size > 0][0])
    return [
        found.action.tolist(),
        found.size.tolist(),
        [int(at) - first if at else 0 for at in found.address],
    ]


def devices(report: dict[str, Any], rank: int) -> Any:
    (found,) = (one["devices"] for one in report["processes"] if one["rank"] == rank)
    return found


@pytest.mark.skipif(
    os.environ.get("MEMREPLAY_TORCHES") == "newest",
    reason="eight processes of torch take most of a minute: ci/truth does it, .ci/run does not",
)
def test_rank_allocates_the_same_without_the_others(tmp_path: Path) -> None:
    for name in ("all", "one"):
        (tmp_path / name).mkdir()
    together = run(tmp_path / "all", *WAYS)
    assert together["world_size"] is None
    alone = run(tmp_path / "one", *WAYS, options=("--rank", "5"))
    assert (alone["world_size"], alone["ranks_ran"]) == (8, [5])
    assert [one["rank"] for one in alone["processes"]] == [5]
    assert events(alone, 5) == events(together, 5)
    assert devices(alone, 5) == devices(together, 5)
    # Sizes that depend on other ranks' values are named, with the program's own lines.
    assumed = {(Path(one["file"]).name, one["operator"]) for one in alone["reads"]}
    assert ("program.py", "all_gather_object") in assumed
    assert all(one["assumed"] for one in alone["reads"])


def test_stages_that_exchange_shapes_run_together(tmp_path: Path) -> None:
    """`distinct` runs a pipeline's stages, and a second copy of the first one."""
    report = run(tmp_path, "pp_inferred", options=("--rank", "distinct"))
    assert report["ranks_ran"] == [0, 1, 2, 3, 4]
    digests = [one["sizes_digest"] for one in report["processes"]]
    assert digests[0] == digests[4]
    assert len(set(digests)) == 4
    (tmp_path / "single").mkdir()
    single = dryrun(
        tmp_path / "single",
        *("--rank", "5", "--", PYTHON, "-m", "torch.distributed.run"),
        *("--nproc-per-node", "8", PROGRAM, "pp_inferred"),
    )
    assert single.returncode == 6
    words = "memreplay: rank 5 receives an object from rank 4, which doesn't run; run both: --rank"
    assert f"{words} 4,5" in single.stderr


def test_large_jobs_need_no_launcher(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch, torch.distributed as dist\n"
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
        "dist.init_process_group('nccl')\n"
        "assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ['RANK']), 512)\n"
        "n = torch.tensor([3], device='cuda')\n"
        "dist.all_reduce(n)\n"
        "torch.empty(n, device='cuda', dtype=torch.uint8)\n"
    )
    options = ("--world-size", "512", "--rank", "0,38", "--json")
    done = dryrun(tmp_path, *options, "--", PYTHON, str(program))
    report = json.loads(done.stdout)
    assert [one["rank"] for one in report["processes"]] == [0, 38], done.stderr
    found = [
        (one["device"], one["requested_peak_bytes"]) for i in (0, 38) for one in devices(report, i)
    ]
    assert found == [(0, 8 + 3 * 512), (6, 8 + 3 * 512)]
