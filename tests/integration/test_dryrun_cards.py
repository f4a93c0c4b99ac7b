"""A dry run with a real torch: memory outside PyTorch, cards that differ, and the largest batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.snapshot.cards import OUTSIDE_ERROR, find
from tests.integration.dry import PYTHON, dryrun, marks, reported

pytestmark = marks

STEPS = """
import torch
def step(name):
    free, total = torch.cuda.mem_get_info()
    taken = total - free - torch.cuda.memory_reserved()
    print(name, round(taken / 2**20, 1), flush=True)
a = torch.ones(64, 64)
torch.cuda.init(); step("start")
a = a.cuda() + 1; step("kernel")
a @ a; step("fp32")
b = a.bfloat16(); b @ b; step("bf16")
torch.nn.functional.conv2d(a.view(1, 1, 64, 64), a[:3, :3].reshape(1, 1, 3, 3)); step("conv")
torch.linalg.cholesky_ex(a); step("linalg")
torch.fft.fft(a); step("fft")
"""
# measured with mem_get_info on an H200
MEASURED = {
    "start": 526.8,
    "kernel": 528.8,
    "fp32": 594.8,
    "bf16": 684.8,
    "conv": 692.8,
    "linalg": 790.8,
    "fft": 798.8,
}


def test_libraries_take_what_they_took_on_a_card(tmp_path: Path) -> None:
    done = dryrun(tmp_path, "--gpu", "H200", "--", PYTHON, "-c", STEPS)
    said = [line.split() for line in done.stdout.splitlines() if line.split(" ")[0] in MEASURED]
    assert {name: float(size) for name, size in said} == MEASURED, done.stderr


TRAINING = """
import sys, torch
def main(layers, batch):
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(layers)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.ones(batch * 1024, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
main(2, int(sys.argv[1]))
"""


def test_training_program_takes_as_much_as_on_a_card(tmp_path: Path) -> None:
    """Seven training programs had 750.8 to 772.8 MiB on an H200."""
    _, found = reported(tmp_path, "--gpu", "H200", "--", PYTHON, "-c", TRAINING, "4")
    assert 750.8 <= round(found["outside_bytes"] / 2**20, 1) <= 772.8
    card = find("H200")
    assert abs(found["outside_bytes"] - card.training_bytes) < OUTSIDE_ERROR
    with mr.open(found["shown"]) as snap:
        # Simulations and reports on the snapshot leave as much of the card.
        assert snap.replay(0).context_bytes(card.bytes) == found["outside_bytes"]
    assert found["spare_bytes"] == card.bytes - found["peak_bytes"] - found["outside_bytes"]


@pytest.mark.skipif(
    os.environ.get("MEMREPLAY_TORCHES") == "newest",
    reason="a dozen runs of torch take most of a minute: ci/truth does it, .ci/run does not",
)
def test_numbers_beside_the_largest_one_agree(tmp_path: Path) -> None:
    program = ("--", PYTHON, "-c", TRAINING)
    limit = ("--total-memory", "330MiB", "--gpu", "T4")
    _, found = reported(tmp_path, *limit, "--largest", "--range", "1:64", *program, "{}")
    largest = found["largest_value"]
    assert found["next_fits"] is False
    for batch in (largest - 1, largest + 2):  # the two between were tried
        _, one = reported(tmp_path, *limit, *program, str(batch))
        assert (one["verdict"] == "fits") == (batch <= largest), batch


ATTENTION = """
import torch
q = torch.ones(4, 8, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
kept = [torch.nn.functional.scaled_dot_product_attention(q, q, q) for _ in range(4)]
"""


def test_card_without_flash_attention_is_explained(tmp_path: Path) -> None:
    _, found = reported(tmp_path, "--compare", "T4,L4", "--", PYTHON, "-c", ATTENTION)
    assert found["lowest"] == "L4"
    t4, l4 = found["runs"]
    assert l4["causes"] == []
    # Only attention takes memory in this program, and PyTorch chooses how.
    reason = t4["causes"][0]
    assert reason["operator"].startswith("aten::_scaled_dot_product_")
    assert "flash" not in reason["operator"]
    assert reason["base_operator"] == "aten::_scaled_dot_product_flash_attention"
    assert reason["bytes"] >= 0.9 * t4["change_bytes"]


def test_missing_file_gets_a_hint(tmp_path: Path) -> None:
    program = "import torch; torch.ones(1, device='cuda'); torch.load('no-such-file.pt')"
    _, found = reported(tmp_path, "--", PYTHON, "-c", program)
    assert found["verdict"] == "not_known"
    assert found["hint"].startswith("it needs no-such-file.pt, which isn't here.")
