"""Runs FSDP2 as one of eight ranks, without the other seven, and DDP with a single rank."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

if sys.argv[1] == "ddp":  # doesn't work with a fake process group
    dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
else:
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
with stock.recorded():
    model = Gpt(layers=2, width=128, vocabulary=1000).cuda()
    trained = model
    if sys.argv[1] == "ddp":
        trained = DistributedDataParallel(model, gradient_as_bucket_view="--views" in sys.argv)
    else:
        options = {"reshard_after_forward": "--reshard" in sys.argv}
        if "--mixed" in sys.argv:
            options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        for block in model.blocks:
            fully_shard(block, **options)
        fully_shard(model, **options)
    optimizer = torch.optim.AdamW(trained.parameters())

    def take() -> None:
        more = {"inputs": stock.held(data), "temporary": 0, "autograd_detail": 0}
        if "--views" in sys.argv:
            # The gradients are views of DDP's buckets. The buckets stay even if no parameter has a
            # gradient.
            more["gradients"] = stock.held(model.parameters())
            more["communication"] = 0
        elif sys.argv[1] == "ddp":
            more["communication"] = stock.held(model.parameters())
        if sys.argv[1] == "fsdp":
            whole = [p for p in model.parameters() if not hasattr(p, "_local_tensor")]
            more["unsharded_parameters"] = stock.held(whole)
            more |= {"unsharded_gradients": 0, "communication": 0}
            stock.take(optimizers=optimizer, **more)
        else:
            stock.take(model, optimizers=optimizer, **more)

    for _ in range(3):
        data = get_batch(rows=2, vocabulary=1000)
        loss = trained(*data)
        take()
        loss.backward()
        take()
        optimizer.step()
        take()
        optimizer.zero_grad()
        take()
dist.destroy_process_group()
