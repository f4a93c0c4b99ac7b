"""Many kinds of loops: several optimizers, accumulation, validation, inference, servers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, mlp, numbers
from tests.truth.planted.truth import planted, steps


class Gan:
    """Two networks that train against each other."""

    def __init__(self) -> None:
        self.maker, self.judge = mlp(), mlp()
        self.makes = torch.optim.Adam(self.maker.parameters())
        self.judges = torch.optim.Adam(self.judge.parameters())

    def __call__(self) -> Any:
        made = self.maker(batch())
        self.judges.zero_grad()
        (self.judge(batch()).mean() - self.judge(made.detach()).mean()).backward()
        self.judges.step()
        self.makes.zero_grad()
        self.judge(made).mean().backward()
        self.makes.step()
        return made.detach()


@planted()
def gan() -> None:
    """Trains with two optimizers, one step each."""
    train = Gan()
    for _ in steps(50):
        train()


@planted({"MADE": 64 * 128 * 4})
def gan_keeps_what_it_makes() -> None:
    """Trains with two optimizers, and keeps the generated images."""
    train = Gan()
    kept = []
    for _ in steps(50):
        made = train()  # MADE
        kept.append(made)


@planted()
def accumulated() -> None:
    """Four batches per optimizer step."""
    net = mlp()
    opt = torch.optim.AdamW(net.parameters())
    for _ in steps(50):
        for _ in range(4):
            net(batch()).square().mean().backward()
        opt.step()
        opt.zero_grad()


@planted({"OUTPUT": 4 * 4 * KIB})
def accumulated_and_kept() -> None:
    """Four batches per optimizer step, each of which leaks 4 KiB."""
    net = mlp()
    opt = torch.optim.AdamW(net.parameters())
    kept = []
    for _ in steps(50):
        for _ in range(4):
            net(batch()).square().mean().backward()
            kept.append(kib(4))  # OUTPUT
        opt.step()
        opt.zero_grad()


@planted()
def validated() -> None:
    """Every fifth step is followed by validation on larger batches."""
    train = Trained()
    for i in steps(80):
        train(batch())
        if i % 5 == 4:
            with torch.no_grad():
                outputs = [train.net(batch(128)) for _ in range(4)]
            torch.cat(outputs).mean()
            del outputs


@planted({"OUTPUT": lambda i: 8 * KIB * (i % 5 == 4)})
def validated_and_kept() -> None:
    """Every fifth step keeps 8 KiB of the validation output."""
    train = Trained()
    kept = []
    for i in steps(100):
        train(batch())
        if i % 5 == 4:
            with torch.no_grad():
                train.net(batch(128))
            kept.append(kib(8))  # OUTPUT


@planted()
def validated_outputs_stay_until_the_next() -> None:
    """Validation outputs of many sizes are kept until the next validation."""
    made = numbers(20)
    train = Trained()
    outputs: list[Any] = []
    for i in steps(80):
        train(batch())
        if i % 4 == 3:
            with torch.no_grad():
                outputs = [train.net(batch(made.randint(16, 128))) for _ in range(4)]
    del outputs


@planted()
def averaged_in_place() -> None:
    """A moving average of the weights, updated in place."""
    train = Trained()
    average = copy.deepcopy(train.net)
    for _ in steps(50):
        train(batch())
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), train.net.parameters(), strict=True):
                mean.lerp_(parameter, 0.1)


@planted()
def averaged_anew() -> None:
    """A moving average of the weights, in new tensors each time."""
    train = Trained()
    average = [p.detach().clone() for p in train.net.parameters()]
    for _ in steps(50):
        train(batch())
        average = [0.9 * a + 0.1 * p.detach() for a, p in zip(average, train.net.parameters())]  # noqa: B905


@planted()
def checkpointed() -> None:
    """Activations are recomputed in the backward pass."""
    net = mlp(layers=4)
    opt = torch.optim.AdamW(net.parameters())
    for _ in steps(40):
        opt.zero_grad()
        x = batch().requires_grad_()
        for i in range(0, 8, 2):
            x = checkpoint(net[i : i + 2], x, use_reentrant=False)
        x.square().mean().backward()
        opt.step()


@planted()
def autocast() -> None:
    """Mixed precision."""
    net = mlp()
    opt = torch.optim.AdamW(net.parameters())
    for _ in steps(40):
        opt.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(batch()).float().square().mean()
        loss.backward()
        opt.step()


@planted({"SHADOW": 8 * KIB})
def autocast_and_a_leak() -> None:
    """Mixed precision, and each step leaks 8 KiB."""
    net = mlp()
    opt = torch.optim.AdamW(net.parameters())
    kept = []
    for _ in steps(40):
        opt.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(batch()).float().square().mean()
        loss.backward()
        opt.step()
        kept.append(kib(8))  # SHADOW


@planted()
def two_optimizers_one_seldom() -> None:
    """A second optimizer, which comes first in the loop, steps every tenth time."""
    train, other = Trained(), Trained(layers=1)
    for i in steps(60):
        if i % 10 == 0:
            other(batch())
        train(batch())


@planted({"KEPT": 8 * KIB})
def two_optimizers_one_seldom_and_a_leak() -> None:
    """A second optimizer steps every tenth time, and each step leaks 8 KiB."""
    train, other = Trained(), Trained(layers=1)
    kept = []
    for i in steps(60):
        if i % 10 == 0:
            other(batch())
        train(batch())
        kept.append(kib(8))  # KEPT


@planted()
def distilled() -> None:
    """Distillation from a teacher that isn't trained."""
    teacher, train = mlp(layers=3), Trained()
    for _ in steps(50):
        inputs = batch()
        with torch.no_grad():
            wanted = teacher(inputs)
        train.opt.zero_grad()
        (train.net(inputs) - wanted).square().mean().backward()
        train.opt.step()


@planted(stepped=False)
def server() -> None:
    """A server: requests have many sizes and last for different times."""
    made = numbers(21)
    net = mlp()
    held: list[tuple[int, Any]] = []
    with torch.no_grad():
        for i in steps(300):
            held = [one for one in held if one[0] > i]
            net(batch(made.randint(1, 64)))
            held.append((i + made.randint(1, 30), kib(made.randint(1, 256))))


@planted({"LOGGED": KIB}, stepped=False)
def server_that_logs() -> None:
    """A server with requests of many sizes, each of which leaks 1 KiB."""
    made = numbers(22)
    net = mlp()
    held: list[tuple[int, Any]] = []
    log = []
    with torch.no_grad():
        for i in steps(300):
            held = [one for one in held if one[0] > i]
            net(batch(made.randint(1, 64)))
            held.append((i + made.randint(1, 30), kib(made.randint(1, 256))))
            log.append(kib(1))  # LOGGED


@planted(stepped=False)
def server_with_sessions() -> None:
    """Twenty sessions, each growing a cache piece by piece; when one ends, another starts."""
    made = numbers(23)
    net = mlp()
    sessions: dict[int, list[Any]] = {i: [] for i in range(20)}
    with torch.no_grad():
        for _ in steps(300):
            one = made.randrange(20)
            sessions[one].append(kib(16))
            if len(sessions[one]) > made.randint(4, 12):
                sessions[one] = []
            net(batch(4))


@planted(stepped=False)
def inference() -> None:
    """Batches of many sizes, one after another."""
    made = numbers(24)
    net = mlp(layers=4)
    with torch.no_grad():
        for _ in steps(120):
            net(batch(made.randint(8, 128)))


@planted({"OUTPUT": 64 * 128 * 4}, stepped=False, spread=True)
def inference_keeps_outputs() -> None:
    """The network's outputs stay on the GPU."""
    net = mlp(layers=4)
    outputs = []
    with torch.no_grad():
        for _ in steps(120):
            output = net(batch())  # OUTPUT
            outputs.append(output)


@planted()
def policy_with_rollouts() -> None:
    """Rollouts of 16 tensors without gradients, then four steps on them."""
    made = numbers(25)
    net = mlp()
    opt = torch.optim.Adam(net.parameters())
    for _ in steps(40):
        with torch.no_grad():
            rollout = [net(batch(16)) for _ in range(made.randint(8, 16))]
        data = torch.cat(rollout)
        opt.zero_grad()
        net(data).square().mean().backward()
        opt.step()


@planted()
def q_learning() -> None:
    """A target network, updated every tenth step, and a buffer that replaces its entries."""
    made = numbers(26)
    train = Trained()
    target = copy.deepcopy(train.net)
    buffer = [kib(0.5) for _ in range(200)]
    for i in steps(70):
        buffer[made.randrange(200)] = kib(0.5)
        inputs = torch.stack([buffer[made.randrange(200)] for _ in range(32)])
        train.opt.zero_grad()
        with torch.no_grad():
            wanted = target(inputs)
        (train.net(inputs) - wanted).square().mean().backward()
        train.opt.step()
        if i % 10 == 9:
            target.load_state_dict(train.net.state_dict())
