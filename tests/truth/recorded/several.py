"""Trains two models against each other, each with its own optimizer."""

import itertools

import torch
from torch import nn

from tests.truth import stock


def layers(*widths: int) -> nn.Module:
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(one for pair in pairs for one in (nn.Linear(*pair), nn.ReLU()))).cuda()


with stock.recorded():
    maker, judge = layers(64, 256, 512), layers(512, 256, 1)
    makes = torch.optim.Adam(maker.parameters())
    judges = torch.optim.RMSprop(judge.parameters())

    def take() -> None:
        # The discriminator's detached input is the generator's activation.
        inputs = stock.held([real, noise])
        stock.take(maker, judge, optimizers=(makes, judges), inputs=inputs)

    for _ in range(7):
        real = torch.randn(32, 512).cuda()
        noise = torch.randn(32, 64).cuda()
        made = maker(noise)
        judges.zero_grad()
        (judge(real).mean() - judge(made.detach()).mean()).backward()
        take()
        judges.step()
        take()
        makes.zero_grad()
        judge(made).mean().backward()
        take()
        makes.step()
        take()
