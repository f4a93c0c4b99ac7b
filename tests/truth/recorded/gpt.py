"""Trains a GPT; with `late`, the recording begins after two steps."""

import contextlib
import sys
from typing import Any

import torch

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

AUTOCAST = "--amp" in sys.argv


def made() -> tuple[Any, Any]:
    model = Gpt(layers=2, width=128, vocabulary=1000, checkpointed="--ckpt" in sys.argv).cuda()
    model.head.weight = model.embedding.weight
    model.register_buffer("mask", torch.ones(256, 256, device="cuda"))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        foreach=False if "--one-by-one" in sys.argv else None,
        fused="--fused" in sys.argv or None,
    )
    return model, optimizer


def train(model: Any, optimizer: Any, steps: int, take: Any) -> None:
    for _ in range(steps):
        data = get_batch(vocabulary=1000)
        take(data)
        autocast = torch.autocast("cuda", torch.bfloat16) if AUTOCAST else contextlib.nullcontext()
        with autocast:
            loss = model(*data)
        take(data)
        loss.backward()
        take(data)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        take(data)
        optimizer.step()
        take(data)
        optimizer.zero_grad()
        take(data)


if "--late" in sys.argv:
    model, optimizer = made()
    train(model, optimizer, 2, lambda _: None)
    given = {"model": model, "optimizer": optimizer}
else:
    given = {}
with stock.recorded(**given):
    if not given:
        model, optimizer = made()
    train(
        model,
        optimizer,
        3,
        # Between two statements there are no temporaries.
        lambda data: stock.take(
            model,
            optimizers=optimizer,
            inputs=stock.held(data),
            temporary=0,
            autograd_detail=0,
        ),
    )
