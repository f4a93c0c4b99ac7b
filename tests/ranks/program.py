"""Train a small model on several ranks in the usual ways that are named on the command line."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
DEVICE = torch.device("cuda", LOCAL_RANK)
WIDTH, LAYERS = 512, 4


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def blocks(n: int = LAYERS) -> nn.Sequential:
    return nn.Sequential(*(Block() for _ in range(n)))


def train(model: nn.Module, x: torch.Tensor, *, clip: bool = True) -> None:
    # Without clipping: some parameters are DTensors and others aren't, or their meshes differ.
    optimizer = torch.optim.AdamW(model.parameters(), foreach=clip)
    for _ in range(2):
        model(x).square().mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        # NCCL's watchdog frees DDP's first buckets, 100 ms later or so.
        time.sleep(0.5)


def batch(rows: int = 256) -> torch.Tensor:
    return torch.randn(rows, WIDTH, device=DEVICE)


def ddp() -> None:
    from torch.nn.parallel import DistributedDataParallel

    train(DistributedDataParallel(blocks().to(DEVICE), device_ids=[LOCAL_RANK]), batch())


def fsdp(mesh: Any = None) -> None:
    from torch.distributed.fsdp import fully_shard

    model = blocks().to(DEVICE)
    kwargs = {} if mesh is None else {"mesh": mesh}
    for layer in model:
        fully_shard(layer, **kwargs)
    train(fully_shard(model, **kwargs), batch())


def hsdp() -> None:
    from torch.distributed.device_mesh import init_device_mesh

    fsdp(init_device_mesh("cuda", (2, WORLD_SIZE // 2), mesh_dim_names=("copies", "shards")))


def in_tensors(model: nn.Module, mesh: Any) -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def tp() -> None:
    from torch.distributed.device_mesh import init_device_mesh

    model = blocks().to(DEVICE)
    in_tensors(model, init_device_mesh("cuda", (WORLD_SIZE,)))
    train(model, batch(), clip=False)


def fsdp_tp() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cuda", (WORLD_SIZE // 2, 2), mesh_dim_names=("dp", "tp"))
    model = blocks().to(DEVICE)
    in_tensors(model, mesh["tp"])
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"])
    train(fully_shard(model, mesh=mesh["dp"]), batch(), clip=False)


def pp(schedule: str = "1F1B", shapes: bool = True) -> None:
    """Run pipelines of 4 stages, next to each other if there are more ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    stages, copies, rows = 4, 8, 256
    mesh = init_device_mesh("cuda", (WORLD_SIZE // stages, stages), mesh_dim_names=("dp", "pp"))
    stage = mesh["pp"].get_local_rank()
    model = blocks(1 + stage).to(DEVICE)
    given = {}
    if shapes:
        example = torch.randn(rows // copies, WIDTH, device=DEVICE)
        output = example.clone().requires_grad_()
        given = {"input_args": (output if stage else example,), "output_args": (output,)}
    made = PipelineStage(model, stage, stages, DEVICE, group=mesh.get_group("pp"), **given)

    def loss(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return y.square().mean()

    kind = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}[schedule]
    runs = kind(made, n_microbatches=copies, loss_fn=loss)
    optimizer = torch.optim.AdamW(model.parameters())
    x = batch(rows)
    for _ in range(2):
        if stage == 0:
            runs.step(x)
        elif stage == stages - 1:
            runs.step(target=x)
        else:
            runs.step()
        optimizer.step()
        optimizer.zero_grad()


def gpipe() -> None:
    pp("GPipe")


def pp_inferred() -> None:
    pp(shapes=False)


def ep() -> None:
    """Send as many tokens to each expert's rank as it gets, after exchanging the numbers."""
    expert = Block().to(DEVICE)
    optimizer = torch.optim.AdamW(expert.parameters())
    x = batch(64 * WORLD_SIZE)
    for _ in range(2):
        counts = torch.full((WORLD_SIZE,), 64, device=DEVICE)
        gets = torch.empty_like(counts)
        dist.all_to_all_single(gets, counts)
        n = int(gets.sum())
        tokens = torch.empty(n, WIDTH, device=DEVICE)
        dist.all_to_all_single(tokens, x, gets.tolist(), counts.tolist())
        expert(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def cp() -> None:
    """Split sequences over the ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    mesh = init_device_mesh("cuda", (WORLD_SIZE,))
    project = nn.Linear(WIDTH, 3 * WIDTH, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(2, 1024, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    with context_parallel(mesh, buffers=(x,), buffer_seq_dims=(1,)):
        for _ in range(2):
            q, k, v = (
                part.unflatten(-1, (8, WIDTH // 8)).transpose(1, 2)
                for part in project(x).chunk(3, -1)
            )
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            y.float().square().mean().backward()


def small() -> None:
    """Exchange objects and small values, which decide sizes."""
    found: list[Any] = [None] * WORLD_SIZE
    dist.all_gather_object(found, {"tokens": 100})
    n = sum(one["tokens"] for one in found)
    torch.empty(n, WIDTH, device=DEVICE)
    counts = torch.tensor([3, 4], device=DEVICE)
    every = torch.empty(WORLD_SIZE * 2, dtype=counts.dtype, device=DEVICE)
    dist.all_gather_into_tensor(every, counts)
    dist.all_reduce(counts)
    torch.empty(int(counts[0]) * int(every.sum()), WIDTH, device=DEVICE)
    cpu = dist.new_group(backend="gloo")
    here = torch.tensor([5])
    dist.all_reduce(here, group=cpu)
    torch.empty(int(here), WIDTH, device=DEVICE)
    half = dist.new_group(
        list(range(RANK // 4 * 4, RANK // 4 * 4 + 4)), use_local_synchronization=True
    )
    dist.all_reduce(counts, group=half)
    torch.empty(int(counts[1]), device=DEVICE)
    dist.barrier()
    dist.monitored_barrier(group=cpu)


if __name__ == "__main__":
    torch.cuda.set_device(DEVICE)
    eager = {"device_id": DEVICE} if "eager" in sys.argv else {}
    dist.init_process_group("nccl", **eager)
    for name in sys.argv[1:]:
        if name != "eager":
            globals()[name]()
    dist.destroy_process_group()
