"""Programs with several optimizers, or an unusual one, to check the number of steps and the
categories.

The bytes that their own objects hold are read at moments when each byte has one owner: after the
backward pass, when gradients are in `.grad`, and after a step.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import nn

from tests.truth import stock
from tests.truth.planted.programs.parts import Trained, mlp
from tests.truth.planted.truth import planted, steps

TAKEN = (3, 11)
"""Steps in which the program's own objects are asked."""


def batch(n: int = 16, width: int = 128) -> Any:
    return torch.randn(n, width, device="cuda")


def adam(net: Any) -> Any:
    return torch.optim.Adam(net.parameters(), foreach=True)


@planted(categories=True)
def every_tenth_first() -> None:
    """An optimizer that steps every 10th time comes first in the program."""
    slow, fast = mlp(), mlp()
    slow_opt, fast_opt = adam(slow), adam(fast)
    for i in steps(60):
        if i % 10 == 0:
            slow(batch()).square().mean().backward()
            slow_opt.step()
            slow_opt.zero_grad()
        fast(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(slow, fast, optimizers=(slow_opt, fast_opt))
        fast_opt.step()
        fast_opt.zero_grad()


@planted(categories=True)
def gan_held() -> None:
    """The generator's backward pass leaves gradients in the discriminator, which are freed
    unused.
    """
    g, d = mlp(layers=3), mlp()
    g_opt, d_opt = adam(g), adam(d)
    for i in steps(24):
        d_opt.zero_grad()
        (d(batch()).mean() - d(g(batch()).detach()).mean()).backward()
        d_opt.step()
        g_opt.zero_grad()
        d(g(batch())).mean().backward()
        if i in TAKEN:
            stock.take(g, d, optimizers=(g_opt, d_opt))
        g_opt.step()
        if i in TAKEN:
            stock.take(g, d, optimizers=(g_opt, d_opt))


@planted(categories=True)
def gan_frozen() -> None:
    """The generator trains with a discriminator that needs no gradients at that time."""
    g, d = mlp(layers=3), mlp()
    g_opt, d_opt = adam(g), adam(d)
    for i in steps(24):
        d.requires_grad_(True)
        d_opt.zero_grad(set_to_none=True)
        (d(batch()).mean() - d(g(batch()).detach()).mean()).backward()
        d_opt.step()
        d.requires_grad_(False)
        g_opt.zero_grad(set_to_none=True)
        d(g(batch())).mean().backward()
        if i in TAKEN:
            stock.take(g, d, optimizers=(g_opt, d_opt))
        g_opt.step()


@planted(categories=True)
def gan_by_hand() -> None:
    """Gradients are freed by hand, including gradients that no optimizer has used."""
    g, d = mlp(layers=3), mlp()
    g_opt, d_opt = torch.optim.SGD(g.parameters(), 0.1), torch.optim.SGD(d.parameters(), 0.1)
    for i in steps(24):
        (d(batch()).mean() - d(g(batch()).detach()).mean()).backward()
        d_opt.step()
        for parameter in itertools.chain(g.parameters(), d.parameters()):
            parameter.grad = None
        d(g(batch())).mean().backward()
        if i in TAKEN:
            stock.take(g, d, optimizers=(g_opt, d_opt))
        for parameter in d.parameters():
            parameter.grad = None
        g_opt.step()
        for parameter in g.parameters():
            parameter.grad = None


@planted(categories=True)
def in_backward_hooks() -> None:
    """One optimizer per parameter, which steps in a hook in the backward pass."""
    net = mlp(layers=6)
    opts = {p: torch.optim.Adam([p], foreach=False) for p in net.parameters()}

    def hook(parameter: Any) -> None:
        opts[parameter].step()
        opts[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    for i in steps(24):
        net(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(net, optimizers=opts.values(), gradients=0)


@planted(categories=True)
def in_backward_hooks_sgd() -> None:
    """One optimizer per parameter, which steps in a hook and allocates nothing."""
    net = mlp(layers=6)
    opts = {p: torch.optim.SGD([p], 0.1, foreach=False) for p in net.parameters()}

    def hook(parameter: Any) -> None:
        opts[parameter].step()
        parameter.grad = None

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    for i in steps(24):
        net(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(net, optimizers=opts.values(), gradients=0)


@planted(categories=True)
def accumulation() -> None:
    """Four backward passes per step."""
    train = Trained()
    for i in steps(16):
        for _ in range(4):
            train.net(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(train.net, optimizers=train.opt)
        train.opt.step()
        train.opt.zero_grad()


@planted(categories=True)
def skipped_bad_batches() -> None:
    """Some batches are skipped after the backward pass, so their gradients are never used."""
    train = Trained()
    for i in steps(24):
        train.net(batch()).square().mean().backward()
        if i in (3, 11):
            stock.take(train.net, optimizers=train.opt)
        if i % 6 != 3:
            train.opt.step()
        for parameter in train.net.parameters():
            parameter.grad = None
        if i % 6 == 3:
            train.net(batch()).square().mean().backward()
            train.opt.step()
            train.opt.zero_grad()


@planted()
def profiler_steps() -> None:
    """A profiler's step covers two optimizer steps."""
    train = Trained()
    for i in steps(12):
        with torch.profiler.record_function(f"ProfilerStep#{i}"):
            train(batch())
            train(batch())


@planted(categories=True)
def scaler_skips() -> None:
    """A GradScaler that skips the first two steps, as most do."""
    train = Trained()
    scaler = torch.amp.GradScaler("cuda")
    step = train.opt.step
    for i in steps(24):
        skipped = i < 2
        scaler._maybe_opt_step = functools.partial(
            lambda skipped, *_, **__: None if skipped else step(), skipped
        )
        with torch.autocast("cuda", torch.float16):
            loss = train.net(batch()).square().mean()
        scaler.scale(loss).backward()
        del loss
        if i in TAKEN:
            stock.take(train.net, optimizers=train.opt)
        scaler.step(train.opt)
        scaler.update()
        train.opt.zero_grad()


@planted(categories=True)
def lbfgs() -> None:
    """An optimizer that evaluates the model itself, several times per step."""
    net = mlp()
    opt = torch.optim.LBFGS(net.parameters(), max_iter=3, history_size=3)
    for i in steps(16):
        data = batch()

        def closure(data: Any = data) -> Any:
            opt.zero_grad()
            loss = net(data).square().mean()
            loss.backward()
            return loss

        opt.step(closure)
        if i in TAKEN:
            stock.take(net, optimizers=opt)


@planted(categories=True)
def scheduler() -> None:
    """A learning-rate scheduler wraps the optimizer's step."""
    train = Trained()
    schedule = torch.optim.lr_scheduler.OneCycleLR(train.opt, 0.1, total_steps=100)
    for i in steps(30):
        train(batch())
        schedule.step()
        if i in TAKEN:
            stock.take(train.net, optimizers=train.opt)


@planted(categories=True)
def actor_and_critic() -> None:
    """The critic's optimizer steps every time, the actor's every second time (TD3)."""
    actor, critic = mlp(), mlp(layers=3)
    actor_opt, critic_opt = adam(actor), adam(critic)
    for i in steps(30):
        with torch.no_grad():
            target = critic(actor(batch()))
        critic_opt.zero_grad()
        nn.functional.mse_loss(critic(batch()), target).backward()
        critic_opt.step()
        if i % 2 == 1:
            actor_opt.zero_grad()
            (-critic(actor(batch())).mean()).backward()
            if i in TAKEN:
                stock.take(actor, critic, optimizers=(actor_opt, critic_opt))
            actor_opt.step()


@planted(categories=True)
def three_optimizers() -> None:
    """An actor, a critic and a temperature, each with its own optimizer (SAC)."""
    actor, critic = mlp(), mlp()
    alpha = torch.zeros(1, device="cuda", requires_grad=True)
    opts = adam(actor), adam(critic), torch.optim.Adam([alpha])
    for i in steps(20):
        for k, opt in enumerate(opts):
            opt.zero_grad()
            if k == 0:
                (alpha.detach() * actor(batch())).mean().backward()
            elif k == 1:
                critic(batch()).square().mean().backward()
            else:
                (alpha * 2.0).sum().backward()
            opt.step()
        if i in TAKEN:
            stock.take(actor, critic, optimizers=opts)


@planted(categories=True)
def unfreezing_held() -> None:
    """From the middle on, new layers are trained, with an optimizer that replaces the first one."""
    net = mlp(layers=4)
    for parameter in net[:4].parameters():
        parameter.requires_grad_(False)
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
    for i in steps(24):
        if i == 12:
            net.requires_grad_(True)
            opt = torch.optim.Adam(net.parameters())
        opt.zero_grad()
        net(batch()).square().mean().backward()
        if i in (3, 13):
            stock.take(net, optimizers=opt)
        opt.step()


@planted(categories=True)
def one_phase_after_the_other() -> None:
    """Two optimizers: the second starts when the first one is done; both are kept."""
    net, other = mlp(), mlp()
    opts = adam(net), adam(other)
    for i in steps(24):
        trained, opt = (net, opts[0]) if i < 12 else (other, opts[1])
        opt.zero_grad()
        trained(batch()).square().mean().backward()
        if i in (3, 13):
            stock.take(net, other, optimizers=opts)
        opt.step()


class Lightning(nn.Module):
    """Has no forward(): its trainer calls training_step, which calls modules one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp()
        self.register_buffer("mean", torch.zeros(128))
        self.scale = nn.Parameter(torch.ones(128))
        self.head = nn.Linear(128, 128)
        self.unused = nn.Linear(64, 64)
        self.cuda()

    def training_step(self, data: Any) -> Any:
        hidden = self.encoder(data - self.mean) * self.scale
        return nn.functional.linear(hidden, self.head.weight).square().mean()


@planted(categories=True)
def no_forward() -> None:
    """A model whose submodules are called, but which is never called itself."""
    model = Lightning()
    opt = torch.optim.Adam(model.parameters())
    for i in steps(20):
        opt.zero_grad()
        model.training_step(batch()).backward()
        if i in TAKEN:
            stock.take(model, optimizers=opt)
        opt.step()


@planted(categories=True)
def without_modules() -> None:
    """Only tensors and functions, no modules; activations must not be taken for inputs."""
    first = torch.randn(128, 256, device="cuda", requires_grad=True)
    second = torch.randn(256, 128, device="cuda", requires_grad=True)
    opt = torch.optim.Adam([first, second])
    for i in steps(20):
        x = batch()
        hidden = torch.tanh(x @ first)
        output = torch.tanh(hidden @ second)
        loss = output.square().mean()
        if i in TAKEN:
            stock.take(optimizers=opt, inputs=stock.held([x]))
        loss.backward()
        if i in TAKEN:
            stock.take(optimizers=opt, inputs=stock.held([x]))
        opt.step()
        opt.zero_grad()
        del x, hidden, output, loss


@planted(categories=True)
def without_modules_accumulating() -> None:
    """Only tensors and functions, two backward passes per step, and a hand-written optimizer."""
    weights = [torch.randn(128, 128, device="cuda", requires_grad=True) for _ in range(3)]
    opt = torch.optim.SGD(weights, 0.1)
    for i in steps(20):
        for k in range(2):
            x = batch()
            hidden = x
            for weight in weights:
                hidden = torch.relu(hidden @ weight)
            if i in TAKEN and k == 0:
                stock.take(optimizers=opt, inputs=stock.held([x]))
            hidden.square().mean().backward()
            del x, hidden
        opt.step()
        opt.zero_grad()


@planted(categories=True)
def averaged_model() -> None:
    """PyTorch's averaged model, which has parameters and buffers, but no state."""
    train = Trained()
    average = torch.optim.swa_utils.AveragedModel(train.net)
    for i in steps(24):
        train(batch())
        average.update_parameters(train.net)
        if i in TAKEN:
            stock.take(train.net, average, optimizers=train.opt)


@planted(categories=True)
def moving_average() -> None:
    """An averaged model that the program maintains itself."""
    train = Trained()
    average = {name: p.detach().clone() for name, p in train.net.named_parameters()}
    for i in steps(24):
        train(batch())
        with torch.no_grad():
            for name, p in train.net.named_parameters():
                average[name].lerp_(p, 0.01)
        if i in TAKEN:
            stock.take(train.net, optimizers=train.opt)


class Normed(nn.Module):
    """Has more buffers than parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 128), nn.BatchNorm1d(128), nn.Linear(128, 128))
        self.register_buffer("table", torch.zeros(300, 128))
        self.register_buffer("mask", torch.ones(128, dtype=torch.bool))

    def forward(self, x: Any) -> Any:
        return self.layers(x) * self.mask


@planted(categories=True)
def buffers_moved() -> None:
    """A module whose buffers `.cuda()` moves."""
    net = Normed().cuda()
    opt = adam(net)
    for i in steps(20):
        opt.zero_grad()
        net(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(net, optimizers=opt)
        opt.step()


@planted(categories=True)
def sparse_gradients() -> None:
    """An embedding whose gradients are sparse tensors."""
    net = nn.Embedding(2000, 64, sparse=True).cuda()
    opt = torch.optim.SparseAdam(net.parameters())
    for i in steps(20):
        opt.zero_grad()
        rows = torch.randint(0, 2000, (64,)).cuda()
        net(rows).square().mean().backward()
        if i in TAKEN:
            stock.take(net, optimizers=opt)
        opt.step()


@planted(categories=True)
def wrapped_in_data_parallel() -> None:
    """PyTorch's DataParallel around one of the program's own modules."""
    train = Trained()
    wrapper = nn.DataParallel(nn.Sequential(train.net), device_ids=[0])
    for i in steps(20):
        train.opt.zero_grad()
        wrapper(batch()).square().mean().backward()
        if i in TAKEN:
            stock.take(wrapper, optimizers=train.opt)
        train.opt.step()


@planted(categories=True)
def foreach_temporaries() -> None:
    """AdamW's step frees the temporaries it allocates."""
    net = mlp(512, layers=4)
    opt = torch.optim.AdamW(net.parameters(), foreach=True)
    for i in steps(20):
        opt.zero_grad()
        net(batch(16, 512)).square().mean().backward()
        opt.step()
        if i in TAKEN:
            stock.take(net, optimizers=opt)


@planted(categories=True)
def gradients_asked_for() -> None:
    """Gradients from torch.autograd.grad, which the program puts into `.grad`."""
    train = Trained()
    parameters = list(train.net.parameters())
    for i in steps(20):
        loss = train.net(batch()).square().mean()
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.grad = gradient
        del loss, gradient
        train.opt.step()
        if i in TAKEN:
            stock.take(train.net, optimizers=train.opt)
        train.opt.zero_grad()


@planted(categories=True)
def policy_gradient() -> None:
    """Episodes without gradients, then several epochs on the data collected in them (PPO)."""
    policy = mlp(layers=3)
    opt = adam(policy)
    for i in steps(12):
        with torch.no_grad():
            seen = [batch() for _ in range(4)]
            done = [policy(one) for one in seen]
        for one, action in zip(seen, done, strict=True):
            nn.functional.mse_loss(policy(one), action).backward()
        if i in TAKEN:
            stock.take(policy, optimizers=opt)
        opt.step()
        opt.zero_grad()
