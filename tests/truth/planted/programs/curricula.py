"""Programs in which the memory of a step grows, shrinks or varies."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, mlp, numbers
from tests.truth.planted.truth import planted, steps


@planted(grows=8 * 4 * 8 * 32)
def growing_sequence() -> None:
    """Sequences get 8 tokens longer each step; a batch is kept until the next one exists."""
    embed = nn.Embedding(100, 32).cuda()
    net = mlp(32)
    opt = torch.optim.AdamW([*embed.parameters(), *net.parameters()])
    for i in steps(60):
        tokens = torch.zeros(8, 32 + 8 * i, dtype=torch.long, device="cuda")
        opt.zero_grad()
        loss = net(embed(tokens)).square().mean()
        loss.backward()
        opt.step()


@planted(grows=8 * 128 * 4)
def growing_batch() -> None:
    """Batches get 8 more rows each step."""
    train = Trained()
    for i in steps(60):
        inputs = batch(16 + 8 * i)
        train(inputs)


@planted(grows=8 * 128 * 4)
def growing_batch_let_go() -> None:
    """Batches grow each step, and each batch is freed at the end of its step."""
    train = Trained()
    for i in steps(60):
        train(batch(16 + 8 * i))


@planted(grows=4 * 128 * 4)
def growing_outputs_held() -> None:
    """The batch and the network's output are kept until those of the next step exist."""
    net = mlp()
    opt = torch.optim.SGD(net.parameters())
    for i in steps(60):
        inputs = batch(32 + 4 * i)
        outputs = net(inputs)
        outputs.square().mean().backward()
        opt.step()
        opt.zero_grad()


@planted()
def batch_warm_up() -> None:
    """Batches grow in the first 15 steps."""
    train = Trained()
    for i in steps(60):
        inputs = batch(16 + 8 * min(i, 15))
        train(inputs)


@planted()
def resized_in_stages() -> None:
    """Images get larger in each of three stages."""
    train = Trained()
    for i in steps(75):
        inputs = batch((64, 128, 256)[i // 25])
        train(inputs)


@planted()
def random_lengths() -> None:
    """Batches of many sizes, each kept until the next one exists."""
    made = numbers(7)
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)


@planted()
def sizes_go_up_and_down() -> None:
    """Batch sizes follow a sine with a period of 30 steps."""
    train = Trained()
    for i in steps(90):
        inputs = batch(128 + int(100 * math.sin(i * math.tau / 30)))
        train(inputs)


@planted({"KEPT": 2 * KIB})
def sizes_go_up_and_down_and_a_leak() -> None:
    """Batch sizes follow a sine with a period of 30 steps, and each step leaks 2 KiB."""
    train = Trained()
    kept = []
    for i in steps(90):
        inputs = batch(128 + int(100 * math.sin(i * math.tau / 30)))
        train(inputs)
        kept.append(kib(2))  # KEPT


@planted({"KEPT": 4 * KIB}, grows=8 * 128 * 4)
def growing_batch_and_a_leak() -> None:
    """Batches get 8 more rows each step, and each step leaks 4 KiB."""
    train = Trained()
    kept = []
    for i in steps(60):
        inputs = batch(16 + 8 * i)
        train(inputs)
        kept.append(kib(4))  # KEPT


@planted({"CARRIED": 4 * KIB})
def everything_carried_along() -> None:
    """torch.cat copies all results so far into a longer tensor each step."""
    total = kib(4)
    train = Trained()
    for _ in steps(60):
        train(batch())
        total = torch.cat([total, kib(4)])  # CARRIED


@planted({"CARRIED": 64 * 4})
def losses_carried_along() -> None:
    """Appends each sample's loss to one tensor that grows."""
    total = torch.empty(0, device="cuda")
    train = Trained()
    for _ in steps(80):
        inputs = batch()
        train(inputs)
        total = torch.cat((total, inputs.detach()[:, 0]))  # CARRIED


@planted({"CARRIED": 32 * KIB})
def features_carried_along_in_random_lengths() -> None:
    """torch.cat adds 32 KiB per step to one tensor, among batches of many sizes."""
    made = numbers(8)
    total = kib(32)
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)
        total = torch.cat([total, kib(32)])  # CARRIED


@planted()
def carried_along_and_begun_anew() -> None:
    """torch.cat collects a sequence of 12 items, then starts the next one."""
    total = kib(8)
    train = Trained()
    for i in steps(96):
        train(batch())
        total = kib(8) if i % 12 == 0 else torch.cat([total, kib(8)])


@planted(stepped=False)
def generated_with_a_cache() -> None:
    """Keys and values grow by one token at a time, and start over for each text."""
    net = mlp()
    cache: Any = None
    with torch.no_grad():
        for i in steps(192):
            if i % 24 == 0:
                cache = None
            made = net(batch(4)).unsqueeze(1)
            cache = made if cache is None else torch.cat([cache, made], dim=1)
            net(cache.mean(1))


@planted(stepped=False)
def generated_with_a_static_cache() -> None:
    """Keys and values are written to a cache that is large enough from the start."""
    net = mlp()
    cache = torch.zeros(4, 200, 128, device="cuda")
    with torch.no_grad():
        for i in steps(150):
            cache[:, i] = net(batch(4))
            net(cache[:, : i + 1].mean(1))


@planted()
def unfreezing() -> None:
    """Every fifth step unfreezes one more layer, until all are trained."""
    net = mlp(layers=6)
    layers = [one for one in net if isinstance(one, nn.Linear)]
    net.requires_grad_(False)
    layers[-1].requires_grad_(True)
    opt = torch.optim.AdamW(net.parameters())
    for i in steps(80):
        if i % 5 == 4 and i // 5 < 5:
            layers[-2 - i // 5].requires_grad_(True)
        opt.zero_grad()
        net(batch()).square().mean().backward()
        opt.step()


@planted()
def unfreezing_to_the_end() -> None:
    """Every fifth step unfreezes one more layer; the last layer is unfrozen only in the last
    steps.
    """
    net = mlp(layers=8)
    layers = [one for one in net if isinstance(one, nn.Linear)]
    net.requires_grad_(False)
    opt = torch.optim.AdamW([nn.Parameter(torch.zeros(1, device="cuda"))])
    for i in steps(40):
        if i % 5 == 0:
            layers[-1 - i // 5].requires_grad_(True)
            opt.add_param_group({"params": list(layers[-1 - i // 5].parameters())})
        opt.zero_grad()
        net(batch()).square().mean().backward()
        opt.step()


@planted()
def unfreezing_with_momentum() -> None:
    """Unfreezes layers with SGD, whose step creates momentum buffers, and never frees gradients."""
    net = mlp(layers=8)
    layers = [one for one in net if isinstance(one, nn.Linear)]
    net.requires_grad_(False)
    opt = torch.optim.SGD([nn.Parameter(torch.zeros(1, device="cuda"))], lr=0.01, momentum=0.9)
    for i in steps(40):
        if i % 5 == 0:
            layers[-1 - i // 5].requires_grad_(True)
            opt.add_param_group({"params": list(layers[-1 - i // 5].parameters())})
        opt.zero_grad(set_to_none=False)
        net(batch()).square().mean().backward()
        opt.step()


@planted()
def data_longer_each_epoch() -> None:
    """Batches grow within each of four epochs, and start small again in the next."""
    train = Trained()
    for i in steps(80):
        inputs = batch(16 + 8 * (i % 20))
        train(inputs)
