"""`memreplay dryrun` with a real torch, which ci/truth installs, does what the docs say."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from tests.conftest import ROOT
from tests.integration.dry import PYTHON, dryrun, marks, of_memreplay, reported

EXAMPLE = "examples/train_gpt.py"

pytestmark = marks


def shown(path: str) -> list[str]:
    """Return the verdicts that a page shows for the example on an A100."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(rf"\$ memreplay dryrun --gpu A100-80 [^\n]*{EXAMPLE}\n *(fits[^\n]*)", text)


def test_example_matches_the_docs(tmp_path: Path) -> None:
    done = dryrun(tmp_path, "--gpu", "A100-80", "--top", "3", "--", PYTHON, EXAMPLE)
    assert done.returncode == 0, done.stderr
    verdict = done.stdout.splitlines()[0]
    assert shown("README.md") == shown("docs/dryrun.md") == [verdict]
    page = (ROOT / "docs/dryrun.md").read_text(encoding="utf-8")
    block = page.partition("```\n$ memreplay dryrun")[2].partition("```")[0].splitlines()
    # Everything matches except for torch's path, the output's location, and the time.
    there = [line.replace(str(ROOT) + "/", "") for line in done.stdout.splitlines()]
    for line in block[1:]:
        if line.startswith(("program ", "snapshot ", "dryrun.pickle", "  +")):
            continue
        assert line in there, f"docs/dryrun.md shows {line!r}, and it says now:\n{done.stdout}"


def test_program_that_does_not_fit_is_explained(tmp_path: Path) -> None:
    code, report = reported(tmp_path, "--gpu", "T4", "--", PYTHON, EXAMPLE)
    assert (code, report["verdict"], report["outcome"]) == (1, "does_not_fit", "out_of_memory")
    (device,) = report["ooms"]
    assert device["total_memory_bytes"] == report["card"]["total_memory_bytes"]
    assert device["total_memory_known"] is True
    (failed,) = device["ooms"]
    words = re.search(r"Tried to allocate ([\d.]+) MiB", report["error"])
    assert words is not None
    assert float(words[1]) == failed["request_bytes"] / 2**20


def test_unknown_values_are_reported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "x = torch.randn(1000, device='cuda')\n"
        "x[x > 0]\n"
        "torch.nonzero(x)\n"
        "x.unique()\n"
        "x.masked_select(x > 0)\n"
        "x.sum().item()\n"
        "x.cpu()\n"
        "torch.nn.Conv2d(3, 8, 3).cuda()(torch.randn(1, 3, 9, 9, device='cuda'))\n"
        "torch.linalg.cholesky(torch.eye(3, device='cuda'))\n"
        "torch.fft.fft(x)\n"
        "torch.tensor([2, 3]).cuda().cpu().sum().item()\n"  # known
    )
    code, report = reported(tmp_path, "--", PYTHON, str(program))
    assert (code, report["exact"]) == (0, False)
    reads = {(one["operator"], one["line"], one["makes_sizes"]) for one in report["reads"]}
    assert reads >= {
        ("nonzero", 3, True),
        ("nonzero", 4, True),
        ("unique", 5, True),
        ("masked_select", 6, True),
        ("item", 7, False),
        ("copy", 8, False),
    }
    assert not any(line == 12 for _, line, _ in reads)
    assert {one["name"] for one in report["workspaces"]} >= {"cuSOLVER", "cuFFT"}
    assert [one["name"] for one in report["estimates"]] == ["convolutions"]
    assert report["unanswered"] == []


def test_recurrent_network_keeps_what_it_does_on_a_card(tmp_path: Path) -> None:
    """Measured on an H200: a workspace of 83,968,320 bytes and reserve space of 18,125,056."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "net = torch.nn.LSTM(256, 512, 2, batch_first=True, bidirectional=True, dropout=0.2)\n"
        "net = net.cuda()\n"
        "x = torch.randn(8, 50, 256, device='cuda')\n"
        "y, _ = net(x)\n"
        "before = torch.cuda.memory_allocated()\n"
        "y.sum().backward()\n"
        "print(before)\n"
    )
    code, report = reported(tmp_path, "--gpu", "H200", "--", PYTHON, str(program))
    assert (code, report["exact"], report["workspaces"]) == (0, False, [])
    (estimate,) = report["estimates"]
    assert estimate["name"] == "recurrent networks"
    states = 132 * 2048 * 24  # of the dropout's random numbers
    assert estimate["peak_bytes"] == 83968320 + 18125056 + states
    assert estimate["error_bytes"] == estimate["peak_bytes"] // 100


def test_each_rank_has_its_own_card_and_peak(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch\n"
        "import torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "rank = int(os.environ['LOCAL_RANK'])\n"
        "torch.cuda.set_device(rank)\n"
        "dist.init_process_group('nccl')\n"
        "model = DDP(torch.nn.Linear(1000, 1000 * (1 + rank // 2)).cuda(), device_ids=[rank])\n"
        "model(torch.randn(100 * (1 + rank), 1000, device='cuda')).sum().backward()\n"
        "dist.destroy_process_group()\n"
    )
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    code, report = reported(tmp_path, "--gpu", "H100", "--", PYTHON, *launcher, str(program))
    assert (code, report["verdict"], report["card"]["count"]) == (0, "fits", 2)
    assert [one["rank"] for one in report["processes"]] == [0, 1]
    files = [Path(one["file"]).name for one in report["processes"]]
    assert files == ["out.rank0.pickle", "out.rank1.pickle"]
    # The second rank uses twice the batch size on the second GPU.
    (first,), (second,) = (one["devices"] for one in report["processes"])
    assert (first["device"], second["device"]) == (0, 1)
    assert second["requested_peak_bytes"] > first["requested_peak_bytes"]


@pytest.mark.skipif(
    os.environ.get("MEMREPLAY_TORCHES") == "newest",
    reason="eight processes of torch take most of a minute: ci/truth does it, .ci/run does not",
)
def test_committed_fleet_matches_a_new_recording(tmp_path: Path) -> None:
    """Each rank has the same events as in the committed files, and the peaks that PyTorch reports
    in the new run.
    """
    told = tmp_path / "peaks.jsonl"
    program = ("examples/fsdp_odd/train.py", "--peaks", str(told))
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "8")
    code, report = reported(tmp_path, "--gpu", "L4", "--", PYTHON, *launcher, *program)
    assert (code, report["verdict"], report["exact"]) == (0, "fits", True)
    lines = sorted(told.read_text(encoding="utf-8").splitlines())
    stored = ROOT / "examples" / "fsdp_odd" / "peaks.jsonl"
    assert lines == stored.read_text(encoding="utf-8").splitlines()
    for rank, line in enumerate(lines):
        (device,) = report["processes"][rank]["devices"]
        assert device["requested_peak_bytes"] == json.loads(line)["requested"]
        anew = mr.open(tmp_path / f"out.rank{rank}.pickle")
        kept = mr.open(ROOT / "examples" / "fsdp_odd_ranks" / f"rank{rank}.pkl.gz")
        assert anew.devices == kept.devices == (rank,)
        assert anew.events.action.tolist() == kept.events.action.tolist()
        assert anew.events.size.tolist() == kept.events.size.tolist()


def failures(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        found: list[dict[str, Any]] = pickle.load(file)["memreplay"].get("failures", [])
    return found


def test_model_with_uninitialized_parameters_is_categorized(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.LazyLinear(32), nn.LazyBatchNorm1d(), nn.LazyLinear(4)).cuda()\n"
        "x = torch.randn(8, 16, device='cuda')\n"
        "model(x)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for _ in range(6):\n"
        "    model(x).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "parameters = 4 * (16 * 32 + 32 + 32 + 32 + 32 * 4 + 4)\n"
        "assert parameters == sum(4 * p.numel() for p in model.parameters())\n"
    )
    done = dryrun(tmp_path, "--", PYTHON, str(program))
    assert (done.returncode, of_memreplay(done)) == (0, []), done.stderr
    assert failures(tmp_path / "out.pickle") == []
    snap = mr.open(tmp_path / "out.pickle")
    usage = snap.replay(0).measure("requested")
    groups = Grouper(snap, "category").groups(usage, usage.replay.events - 1, 0)[0]
    sums = {group.label: group.bytes for group in groups}
    parameters = 4 * (16 * 32 + 32 + 32 + 32 + 32 * 4 + 4)
    # Adam counts its steps on the CPU.
    assert sums["parameters"] == parameters
    assert sums["optimizer state"] == 2 * parameters


def test_program_continues_if_its_objects_raise_on_every_access(tmp_path: Path) -> None:
    done = dryrun(tmp_path, "--", PYTHON, "tests/recording/odd_objects.py")
    assert done.returncode == 0, done.stderr
    # The program's own modes saw the program's operators, but no operators from the recorder.
    first, last, verdict, *_ = done.stdout.splitlines()
    assert first == "seen: _set_grad_enabled aten.addmm.default aten.t.default linear"
    assert (last, verdict[:4]) == ("the program has ended well", "fits")
    said = of_memreplay(done)
    assert len(said) == 1
    assert "); the program continues" in said[0]
    found = failures(tmp_path / "out.pickle")
    assert found
    assert all(one["count"] > 0 and ": " in one["error"] for one in found)
    summary = mr.summary(mr.open(tmp_path / "out.pickle"))
    assert "recorder_failed" in summary.devices[0].reasons
