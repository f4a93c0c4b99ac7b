"""Compare estimates of training programs, which use fake tensors, with PyTorch."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed._tools import mem_tracker
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.errors import UsageError
from memreplay.recording import estimate_kernels
from memreplay.recording.recorder import Recorder
from tests.recording.programs import PROGRAMS, WIDTH, Gpt

# Peak requested bytes in the second step according to PyTorch's own allocator in a dry run (see
# tests/recording/programs.py), and the largest allowed error of the estimate in percent.
DRY = [
    ("gpt", 41642552, 0.1),
    ("gpt --checkpoint", 31494680, 0.1),
    ("gpt --amp", 36084304, 0.1),
    ("gpt --one-by-one", 41642552, 0.1),
    ("gpt --fused", 41642712, 0.1),
    ("images", 45287916, 0.1),
    ("images --amp", 35232268, 0.1),
    ("weighing", 216687128, 0.1),
    ("weighing --amp", 172941848, 0.1),
]


def live_at_the_end(found: mr.Estimate) -> Counter[str]:
    """Return each category's bytes at the end."""
    snap = found.open()
    usage = snap.replay().measure()
    groups, *_ = Grouper(snap, "category").groups(usage, usage.replay.events - 1, 0)
    return Counter({group.label: group.bytes for group in groups})


@pytest.mark.parametrize("program, peak, percent", DRY)
def test_peak_matches_a_dry_run(program: str, peak: int, percent: float) -> None:
    name, *options = program.split()
    found = mr.estimate(lambda: PROGRAMS[name](*options))
    assert found.steps[1] == pytest.approx(peak, rel=percent / 100)
    assert found.peak_bytes == max(found.steps)
    assert sum(found.categories.values()) == found.peak_bytes
    assert sum(found.phases.values()) == sum(found.modules.values()) == found.peak_bytes


def test_categories_match_the_sizes_of_the_objects() -> None:
    with mr.estimating() as run:
        model = Gpt(checkpointed=False).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randint(9, (2, 128), device="cuda")).sum().backward()
            optimizer.step()
        found = live_at_the_end(run.estimate())
    parameters = sum(one.nbytes for one in model.parameters())
    assert found["parameters"] == parameters == found["gradients"]
    assert found["buffers"] == model.mask.nbytes
    # The optimizer's step counters are on the host.
    assert found["optimizer state"] == 2 * parameters
    assert "Gpt.blocks.1.up" in run.estimate().modules


class Perceptrons(nn.Module):
    """The perceptrons in MemTracker's own tests, without a device."""

    def __init__(self, *, checkpointed: bool) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return x


@pytest.mark.parametrize("checkpointed", [False, True])
def test_estimate_agrees_with_memtracker(
    *, checkpointed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuBLAS workspaces are switched off, because MemTracker doesn't know about them."""
    monkeypatch.setattr(estimate_kernels, "WORKSPACES", {})
    with FakeTensorMode():
        model = Perceptrons(checkpointed=checkpointed)
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        x = torch.randn(4096, 64)
        tracker = mem_tracker.MemTracker()
        tracker.track_external(model, optimizer, x)
        with tracker:
            for _ in range(2):
                model(x).sum().backward()
                now = tracker.get_tracker_snapshot("current")[torch.device("cpu")]
                optimizer.step()
                optimizer.zero_grad()
                tracker.reset_mod_stats()
            peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    theirs = {getattr(key, "name", key): size for key, size in now.items()}
    high = peak["Total"]

    with mr.estimating() as run:
        model = Perceptrons(checkpointed=checkpointed)
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        x = torch.randn(4096, 64)
        for _ in range(2):
            model(x).sum().backward()
            ours = live_at_the_end(run.estimate())
            optimizer.step()
            optimizer.zero_grad()
        found = run.estimate()
    assert ours["parameters"] == theirs["PARAM"]
    assert ours["gradients"] == theirs["GRAD"]
    assert ours["optimizer state"] == theirs["OPT"]
    assert ours["inputs"] == theirs["OTH"] == x.nbytes
    assert sum(ours.values()) == theirs["Total"]
    assert found.peak_bytes == high


# --- devices --------------------------------------------------------------------------------------


def test_tensors_stay_on_the_programs_device() -> None:
    with mr.estimating() as run:
        host = torch.zeros(1000)
        card = host.cuda()
        assert (host.device, card.device) == (torch.device("cpu"), torch.device("cuda", 0))
        assert (host.is_cuda, card.is_cuda, card.is_cpu, card.get_device()) == (
            False,
            True,
            False,
            0,
        )
        assert card.to("cuda:0") is card.cuda() is card
        assert (card + 1).device.type == torch.zeros_like(card).device.type == "cuda"
        assert card.cpu().device.type == "cpu"
        made = torch.empty(500, device=card.device, dtype=torch.float64)
        listed = torch.tensor([1.0, 2.0], device="cuda")
        half = host.to("cuda", torch.float16)
        assert (half.dtype, host.to(half).dtype) == (torch.float16, torch.float16)
        with torch.device("cuda"):
            inside = torch.ones(100)
        assert {one.device.type for one in (made, listed, half, inside)} == {"cuda"}
        found = run.estimate()
    kept = sum(one.nbytes for one in (card, made, listed, half, inside))
    assert found.open().replay().measure().end_bytes == kept


def test_host_tensors_count_if_no_gpu_is_used() -> None:
    with mr.estimating() as run:
        kept = torch.zeros(1000)
        del kept
        kept = torch.zeros(3, dtype=torch.int8)
    assert (run.estimate().peak_bytes, kept.shape) == (4000, (3,))


def test_data_created_before_the_estimate_stays_on_the_host() -> None:
    data = torch.arange(1000.0)
    found = mr.estimate(lambda: lambda: data[:100].cuda().sum())
    assert found.peak_bytes == 404
    assert data.sum() == 499500


def test_freed_memory_is_reused() -> None:
    with mr.estimating() as run:
        one = torch.zeros(1000, device="cuda")
        one.untyped_storage().resize_(0)
        assert run.estimate().open().replay().measure().end_bytes == 0
        one.untyped_storage().resize_(4000)
        found = run.estimate()
    assert found.peak_bytes == found.open().replay().measure().end_bytes == 4000


# --- behaviour of a GPU ---------------------------------------------------------------------------


def saved(run: Any) -> int:
    """Return the bytes that the program holds now."""
    return int(run.estimate().open().replay().measure().end_bytes)


def test_dropout_keeps_a_boolean_mask() -> None:
    with mr.estimating() as run:
        x = torch.zeros(1000, device="cuda", requires_grad=True)
        before = saved(run)
        found = functional.dropout(x, 0.5)
        assert saved(run) - before == 4000 + 1000
        assert functional.dropout(x, 0.5, training=False).shape == found.shape


def test_attention_with_dropout_stores_no_score_matrix() -> None:
    with mr.estimating() as run:
        x = torch.zeros(1, 2, 256, 32, device="cuda", requires_grad=True)
        before = saved(run)
        found = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True)
        assert found.nbytes <= saved(run) - before <= found.nbytes + 2 * 256 * 4


@pytest.mark.parametrize(
    "call, dtype",
    [
        (lambda x: x @ x, torch.bfloat16),
        (lambda x: functional.layer_norm(x.bfloat16(), [64]), torch.float32),
        (lambda x: x.bfloat16().softmax(-1), torch.float32),
        (lambda x: x.bfloat16().sum(0), torch.float32),
        (lambda x: x.bfloat16().exp(), torch.float32),
        (lambda x: torch.addr(x, x[0], x[1]), torch.bfloat16),
        (lambda x: torch.atan2(x.bfloat16(), x), torch.float32),
        (lambda x: functional.relu(x.bfloat16()), torch.bfloat16),
    ],
)
def test_autocast_casts_as_on_a_gpu(call: Any, dtype: torch.dtype) -> None:
    with mr.estimating(), torch.autocast("cuda", dtype=torch.bfloat16):
        assert call(torch.zeros(64, 64, device="cuda")).dtype is dtype


# --- unsupported ----------------------------------------------------------------------------------


def test_model_created_before_the_estimate_is_a_usage_error() -> None:
    model = nn.Linear(3, 3)
    with pytest.raises(
        UsageError,
        match="a model was created before the estimate began",
    ):
        mr.estimate(lambda: lambda: model(torch.zeros(3)))


def test_estimate_does_not_know_tensor_values() -> None:
    with mr.estimating():
        x = torch.rand(9)
        assert (x.sum().item(), (x > 2).any().item(), x.argmax().item()) == (0.0, False, 1)
        assert torch.tensor(7).item() == 7
    with pytest.raises(
        UsageError,
        match=r"the program needs tensor values, which fake tensors don't have: aten\.nonzero",
    ):
        mr.estimate(lambda: torch.rand(9).nonzero())


def test_only_one_estimate_at_a_time() -> None:
    with mr.estimating(), pytest.raises(UsageError, match="already recording, to"), mr.estimating():
        pass


def test_program_that_records_itself_can_be_estimated(caplog: pytest.LogCaptureFixture) -> None:
    """Without a GPU, its recorder does nothing."""
    with mr.estimating() as run:
        with Recorder("x.pickle"):
            kept = torch.ones(1000, device="cuda")
        found = run.estimate()
    assert found.peak_bytes == kept.nbytes
    assert "nothing is recorded" in caplog.text


def test_torch_is_unchanged_after_an_estimate() -> None:
    def state() -> list[object]:
        kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        return [
            nn.Module.__call__,
            torch.autocast.__init__,
            torch.UntypedStorage.resize_,
            torch.utils.swap_tensors,
            optimizer._get_foreach_kernels_supported_devices,
            list(optimizer._foreach_supported_types),
            vars(FakeTensor)["device"],
            kernel("aten::dropout", "AutogradCPU"),
            kernel("aten::layer_norm", "AutocastCPU"),
            torch._C._len_torch_dispatch_stack(),
            torch._C._len_torch_function_stack(),
        ]

    optimizer: Any = importlib.import_module("torch.optim.optimizer")
    before = state()
    with pytest.raises(ZeroDivisionError):
        mr.estimate(lambda: 1 // 0)
    mr.estimate(PROGRAMS["images"])
    assert state() == before
    model = nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0, 2.0, 2.0]]


# --- the file -------------------------------------------------------------------------------------


def test_written_file_can_be_read_like_any_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "step.pickle"
    found = mr.estimate(PROGRAMS["gpt"], steps=3, path=path)
    with pytest.raises(UsageError, match="already exists; pass overwrite=True"):
        mr.estimate(PROGRAMS["gpt"], path=path)
    snap = mr.open(path)
    assert snap.recorder["recorder"] == "estimate"
    (device,) = mr.peak(snap, by="category").devices
    assert device.peak_bytes == found.peak_bytes
    assert (device.exactness, device.trusted, device.reasons) == (
        "estimated",
        True,
        ("fake_tensors",),
    )
    assert {one.label: one.bytes for one in device.groups} == found.categories
    (summary,) = mr.summary(snap).devices
    assert summary.reasons == ("fake_tensors",)
    began, *ends = found.snapshot["memreplay"]["steps"][0]
    assert (began, len(found.steps), len(ends)) == (0, 3, 3)
    assert found.steps[1] == found.steps[2] > found.steps[0]


def test_stacks_leave_out_memreplays_own_frames() -> None:
    with mr.estimating() as run:
        kept = nn.Linear(WIDTH, 7)(torch.zeros(3, WIDTH))
    events = run.estimate().snapshot["device_traces"][0]
    (made,) = [one for one in events if one["action"] == "alloc" and one["size"] == kept.nbytes]
    names = [frame["name"] for frame in made["frames"]]
    assert names[0] == "forward"
    assert "test_stacks_leave_out_memreplays_own_frames" in names
    folder = str(Path(mr.__file__).parent)
    assert not [one for one in made["frames"] if one["filename"].startswith(folder)]
