"""Things that are kept without anyone meaning to."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, mlp, numbers
from tests.truth.planted.truth import planted, steps


@planted({"KEPT": 512})
def labels_kept_ids_replaced() -> None:
    """One line moves ids of many lengths, which are replaced, and labels, which are kept."""
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
    """The same, of images of 64 to 512 KiB."""
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
    """Each eighth step keeps 48 KiB, the others 2 KiB."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        kept.append(kib(48 if i % 8 == 0 else 2))  # KEPT


@planted({"KEPT": lambda i: (256 if i % 10 == 5 else 1) * KIB})
def uneven_by_far() -> None:
    """Each tenth step keeps 256 KiB, the others 1 KiB."""
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
    """Keeps 1 to 64 KiB of each step."""
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
    """Keeps a tensor of each step, each 1 KiB larger than the one before."""
    kept = []
    train = Trained()
    for i in steps(60):
        train(batch())
        kept.append(kib(i + 1))  # KEPT


@planted({"KEPT": lambda i: 32 * KIB * (i >= 30)}, grows_from=30)
def begins_late() -> None:
    """Keeps a tensor of each step from the 31st on."""
    kept = []
    train = Trained()
    for i in steps(90):
        train(batch())
        if i >= 30:
            kept.append(kib(32))  # KEPT


@planted()
def ends_halfway() -> None:
    """Keeps a tensor of each of the first 40 steps."""
    kept = []
    train = Trained()
    for i in steps(80):
        train(batch())
        if i < 40:
            kept.append(kib(32))


@planted({"LARGE": 32 * KIB, "SMALL": 1 * KIB})
def two_lines() -> None:
    """Keeps tensors of two lines."""
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
    """Validation losses are kept with their graphs: no backward pass lets go of them."""
    losses = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        losses.append(train.net(batch()).square().mean())  # GRAPH


@planted({"HELD": 64 * KIB})
def tracebacks_held() -> None:
    """Errors are kept, and with them the frames that they went through."""
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
    """A forward hook keeps the outputs of a layer."""
    features: list[Any] = []
    train = Trained()
    train.net[1].register_forward_hook(lambda _module, _inputs, output: features.append(output))
    for _ in steps(60):
        train(batch())  # OUTPUT


@planted()
def hook_replaces() -> None:
    """A forward hook keeps the last output of each layer."""
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
    """Callbacks that are never called keep what they would use."""
    callbacks = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        weights = kib(24)  # CAPTURED
        callbacks.append(lambda weights=weights: weights.sum())


@planted({"NO STACK": 65_536})
def gradients_kept() -> None:
    """Keeps the gradient of a layer of each step: the backward pass allocated it."""
    kept = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        kept.append(train.net[0].weight.grad)


@planted({"STATE": 3 * 16 * 64 * 4}, stepped=False, spread=True)
def hidden_state_never_detached() -> None:
    """The state of a recurrent network has the graph of all steps before."""
    cell = nn.Linear(64, 64).cuda()
    state = torch.zeros(16, 64, device="cuda")
    for _ in steps(80):
        state = torch.tanh(cell(state)) * kib(4).view(16, 64)  # STATE


@planted(every=5)
def hidden_state_detached() -> None:
    """Each fifth step goes back through the graph and lets go of it."""
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
    """Tensors hang in cycles, which are collected each tenth step."""
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
    """The same, and 16 KiB stay of each step."""
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
    """Norms of gradients are kept: 4 bytes each."""
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
    """Batches of many sizes, and a leak of 32 KiB a step."""
    made = numbers(13)
    kept = []
    train = Trained()
    for _ in steps(80):
        inputs = batch(made.randint(16, 256))
        train(inputs)
        kept.append(kib(32))  # KEPT
