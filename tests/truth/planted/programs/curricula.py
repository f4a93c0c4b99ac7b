"""What a step needs grows, shrinks, or changes from step to step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, mlp, numbers
from tests.truth.planted.truth import planted, steps


@planted(grows=8 * 4 * 8 * 32)
def growing_sequence() -> None:
    """Sequences are 8 longer each step; the batch stays until the next one is there."""
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
    """Batches have 8 more rows each step."""
    train = Trained()
    for i in steps(60):
        inputs = batch(16 + 8 * i)
        train(inputs)


@planted(grows=8 * 128 * 4)
def growing_batch_let_go() -> None:
    """The same, and each batch is gone at the end of its step."""
    train = Trained()
    for i in steps(60):
        train(batch(16 + 8 * i))


@planted(grows=4 * 128 * 4)
def growing_outputs_held() -> None:
    """The batch and what the network made of it stay until the next step's are there."""
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
    """Images are larger in each of three stages."""
    train = Trained()
    for i in steps(75):
        inputs = batch((64, 128, 256)[i // 25])
        train(inputs)


@planted()
def random_lengths() -> None:
    """Batches of many sizes, each there until the next one is."""
    made = numbers(7)
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)


@planted()
def sizes_go_up_and_down() -> None:
    """Batches as a sine goes, of 30 steps."""
    train = Trained()
    for i in steps(90):
        inputs = batch(128 + int(100 * math.sin(i * math.tau / 30)))
        train(inputs)


@planted({"KEPT": 2 * KIB})
def sizes_go_up_and_down_and_a_leak() -> None:
    """The same, and 2 KiB of each step stay."""
    train = Trained()
    kept = []
    for i in steps(90):
        inputs = batch(128 + int(100 * math.sin(i * math.tau / 30)))
        train(inputs)
        kept.append(kib(2))  # KEPT


@planted({"KEPT": 4 * KIB}, grows=8 * 128 * 4)
def growing_batch_and_a_leak() -> None:
    """Batches have 8 more rows each step, and 4 KiB of each step stay."""
    train = Trained()
    kept = []
    for i in steps(60):
        inputs = batch(16 + 8 * i)
        train(inputs)
        kept.append(kib(4))  # KEPT


@planted({"CARRIED": 4 * KIB})
def everything_carried_along() -> None:
    """torch.cat carries all of before along."""
    total = kib(4)
    train = Trained()
    for _ in steps(60):
        train(batch())
        total = torch.cat([total, kib(4)])  # CARRIED


@planted({"CARRIED": 64 * 4})
def losses_carried_along() -> None:
    """Losses of each sample, in one tensor that grows."""
    total = torch.empty(0, device="cuda")
    train = Trained()
    for _ in steps(80):
        inputs = batch()
        train(inputs)
        total = torch.cat((total, inputs.detach()[:, 0]))  # CARRIED


@planted({"CARRIED": 32 * KIB})
def features_carried_along_in_random_lengths() -> None:
    """torch.cat carries 32 KiB more each step, among batches of many sizes."""
    made = numbers(8)
    total = kib(32)
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)
        total = torch.cat([total, kib(32)])  # CARRIED


@planted()
def carried_along_and_begun_anew() -> None:
    """A sequence of 12 is gathered by torch.cat, then the next begins."""
    total = kib(8)
    train = Trained()
    for i in steps(96):
        train(batch())
        total = kib(8) if i % 12 == 0 else torch.cat([total, kib(8)])


@planted(stepped=False)
def generated_with_a_cache() -> None:
    """Keys and values grow by a token at a time, and are begun anew for each of the texts."""
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
    """Keys and values are written to a cache that has room for all."""
    net = mlp()
    cache = torch.zeros(4, 200, 128, device="cuda")
    with torch.no_grad():
        for i in steps(150):
            cache[:, i] = net(batch(4))
            net(cache[:, : i + 1].mean(1))


@planted()
def unfreezing() -> None:
    """One more layer is trained each fifth step, until all are."""
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
    """One more layer is trained each fifth step, and the last of them in the last steps."""
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
    """The same with SGD, whose step makes the state, and gradients that stay."""
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
    """Batches grow within each of four epochs, and begin small with the next."""
    train = Trained()
    for i in steps(80):
        inputs = batch(16 + 8 * (i % 20))
        train(inputs)
