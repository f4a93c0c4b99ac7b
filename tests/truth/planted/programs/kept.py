"""Programs that keep memory unintentionally."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, mlp, numbers
from tests.truth.planted.truth import planted, steps


@planted({"KEPT": 512})
def labels_kept_ids_replaced() -> None:
    """One line moves ids of varying length, which are replaced, and labels, which are kept."""
    made = numbers(9)
    labels = []
    train = Trained()
    for _ in steps(60):
        host = {"ids": torch.zeros(8, made.randrange(100, 900)), "labels": torch.zeros(128)}
        there = {k: v.to("cuda") for k, v in host.items()}  # KEPT
        train(batch())
        labels.append(there["labels"])


@planted({"KEPT": 2 * KIB})
def labels_kept_images_replaced() -> None:
    """One line moves images of 64 to 512 KiB, which are replaced, and labels, which are kept."""
    made = numbers(10)
    labels = []
    train = Trained()
    for _ in steps(80):
        host = [torch.zeros(256 * made.randrange(64, 512)), torch.zeros(512)]
        images, label = (one.to("cuda") for one in host)  # KEPT
        train(batch())
        labels.append(label)
        del images


@planted({"KEPT": lambda i: (48 if i % 8 == 0 else 2) * KIB})
def uneven() -> None:
    """Every eighth step keeps 48 KiB, the others 2 KiB."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        kept.append(kib(48 if i % 8 == 0 else 2))  # KEPT


@planted({"KEPT": lambda i: (256 if i % 10 == 5 else 1) * KIB})
def uneven_by_far() -> None:
    """Every tenth step keeps 256 KiB, the others 1 KiB."""
    kept = []
    train = Trained()
    for i in steps(120):
        train(batch())
        kept.append(kib(256 if i % 10 == 5 else 1))  # KEPT


_made = numbers(11)
SIZES = [_made.randint(1, 64) for _ in range(80)]
CHOSEN = [_made.random() < 0.5 for _ in range(80)]


@planted({"KEPT": lambda i: SIZES[i] * KIB})
def many_sizes_kept() -> None:
    """Keeps 1 to 64 KiB from each step."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        kept.append(kib(SIZES[i]))  # KEPT


@planted({"KEPT": lambda i: 16 * KIB * CHOSEN[i]})
def kept_at_random() -> None:
    """Keeps a tensor in half of the steps, at random."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        if CHOSEN[i]:
            kept.append(kib(16))  # KEPT


@planted({"KEPT": lambda i: (i + 1) * KIB})
def more_kept_each_step() -> None:
    """Keeps a tensor from each step, each 1 KiB larger than the previous one."""
    kept = []
    train = Trained()
    for i in steps(60):
        train(batch())
        kept.append(kib(i + 1))  # KEPT


@planted({"KEPT": lambda i: 32 * KIB * (i >= 30)}, grows_from=30)
def begins_late() -> None:
    """Keeps a tensor from each step, starting with the 31st."""
    kept = []
    train = Trained()
    for i in steps(90):
        train(batch())
        if i >= 30:
            kept.append(kib(32))  # KEPT


@planted()
def ends_halfway() -> None:
    """Keeps a tensor from each of the first 40 steps."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        if i < 40:
            kept.append(kib(32))


@planted({"LARGE": 32 * KIB, "SMALL": 1 * KIB})
def two_lines() -> None:
    """Keeps tensors allocated on two lines."""
    large, small = [], []
    train = Trained()
    for _ in steps(60):
        large.append(kib(32))  # LARGE
        train(batch())
        small.append(kib(1))  # SMALL


@planted({"LOSS": 4})
def losses_kept() -> None:
    """Losses are kept as tensors: 4 bytes each."""
    losses = []
    train = Trained()
    for _ in steps(60):
        loss = train(batch())  # LOSS
        losses.append(loss)


@planted({"GRAPH": 3 * 64 * 128 * 4 + 4}, spread=True)
def graphs_kept() -> None:
    """Validation losses are kept with their graphs, which no backward pass frees."""
    losses = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        losses.append(train.net(batch()).square().mean())  # GRAPH


@planted({"HELD": 64 * KIB})
def tracebacks_held() -> None:
    """Keeps exceptions, and with them the local variables in their tracebacks."""
    errors = []

    def fails() -> None:
        held = kib(64)  # HELD
        raise ValueError(held.shape)

    train = Trained()
    for _ in steps(60):
        train(batch())
        try:
            fails()
        except ValueError as error:
            errors.append(error)


@planted({"OUTPUT": 64 * 128 * 4})
def hook_keeps() -> None:
    """A forward hook keeps a layer's outputs."""
    features: list[Any] = []
    train = Trained()
    train.net[1].register_forward_hook(lambda _module, _inputs, output: features.append(output))
    for _ in steps(60):
        train(batch())  # OUTPUT


@planted()
def hook_replaces() -> None:
    """A forward hook keeps each layer's last output."""
    features: dict[int, Any] = {}
    train = Trained(layers=3)
    for number, layer in enumerate(train.net):
        layer.register_forward_hook(
            lambda _module, _inputs, output, number=number: features.update({number: output})
        )
    made = numbers(12)
    for _ in steps(60):
        train(batch(made.randint(16, 128)))


@planted({"CAPTURED": 24 * KIB})
def closures_keep() -> None:
    """Callbacks that are never called keep the tensors that they would use."""
    callbacks = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        weights = kib(24)  # CAPTURED
        callbacks.append(lambda weights=weights: weights.sum())


@planted({"NO STACK": 65_536})
def gradients_kept() -> None:
    """Keeps a layer's gradient from each step, which the backward pass allocated."""
    kept = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        kept.append(train.net[0].weight.grad)


@planted({"STATE": 3 * 16 * 64 * 4}, stepped=False, spread=True)
def hidden_state_never_detached() -> None:
    """A recurrent network's state keeps the graph of all earlier steps."""
    cell = nn.Linear(64, 64).cuda()
    state = torch.zeros(16, 64, device="cuda")
    for _ in steps(80):
        state = torch.tanh(cell(state)) * kib(4).view(16, 64)  # STATE


@planted(every=5)
def hidden_state_detached() -> None:
    """Every fifth step backpropagates through the graph and frees it."""
    cell = nn.Linear(64, 64).cuda()
    opt = torch.optim.SGD(cell.parameters())
    state = torch.zeros(16, 64, device="cuda")
    for i in steps(90):
        state = torch.tanh(cell(state))
        if i % 5 == 4:
            state.sum().backward()
            opt.step()
            opt.zero_grad()
            state = state.detach()


@planted()
def cycles_collected() -> None:
    """Tensors are part of reference cycles, which are collected every tenth step."""
    import gc

    train = Trained()
    gc.disable()
    for i in steps(90):
        cycle: list[Any] = [kib(16)]
        cycle.append(cycle)
        del cycle
        train(batch())
        if i % 10 == 9:
            gc.collect()


@planted({"KEPT": 16 * KIB})
def cycles_collected_and_a_leak() -> None:
    """Reference cycles are collected every tenth step, and each step leaks 16 KiB."""
    import gc

    train = Trained()
    kept = []
    gc.disable()
    for i in steps(90):
        cycle: list[Any] = [kib(16)]
        cycle.append(cycle)
        del cycle
        train(batch())
        kept.append(kib(16))  # KEPT
        if i % 10 == 9:
            gc.collect()


@planted({"NORM": 4})
def norms_kept() -> None:
    """Gradient norms are kept: 4 bytes each."""
    net = mlp()
    opt = torch.optim.SGD(net.parameters())
    norms = []
    for _ in steps(80):
        opt.zero_grad()
        net(batch()).square().mean().backward()
        norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0))  # NORM
        opt.step()


@planted({"KEPT": 32 * KIB})
def outputs_of_random_lengths_and_a_leak() -> None:
    """Batches of many sizes, and a leak of 32 KiB per step."""
    made = numbers(13)
    kept = []
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)
        kept.append(kib(32))  # KEPT
