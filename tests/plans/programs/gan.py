"""A GAN: a generator of images and a discriminator, with an optimizer each."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, LATENT, BATCH = 64, 128, 64


def grown(given: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(given, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    )


def shrunk(given: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(given, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.2)
    )


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(LATENT, 8 * WIDTH * 16)
        widths = [8 * WIDTH, 4 * WIDTH, 2 * WIDTH, WIDTH, WIDTH]
        pairs = itertools.pairwise(widths)
        self.blocks = nn.Sequential(*(grown(given, width) for given, width in pairs))
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, latent: Any) -> Any:
        x = self.first(latent).view(-1, 8 * WIDTH, 4, 4)
        return torch.tanh(self.last(self.blocks(x)))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [3, WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH]
        pairs = itertools.pairwise(widths)
        self.blocks = nn.Sequential(*(shrunk(given, width) for given, width in pairs))
        self.last = nn.Linear(8 * WIDTH * 16, 1)

    def forward(self, images: Any) -> Any:
        return self.last(self.blocks(images).flatten(1))


def main() -> None:
    generator, discriminator = Generator().cuda(), Discriminator().cuda()
    of_generator = torch.optim.Adam(generator.parameters(), betas=(0.5, 0.999))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), betas=(0.5, 0.999))
    real, fake = torch.ones(BATCH, 1, device="cuda"), torch.zeros(BATCH, 1, device="cuda")
    loss = functional.binary_cross_entropy_with_logits
    for _ in range(3):
        images = torch.rand(BATCH, 3, 64, 64, device="cuda")
        made = generator(torch.randn(BATCH, LATENT, device="cuda"))
        found = loss(discriminator(images), real) + loss(discriminator(made.detach()), fake)
        found.backward()
        of_discriminator.step()
        of_discriminator.zero_grad()
        loss(discriminator(made), real).backward()
        of_generator.step()
        of_generator.zero_grad()
        of_discriminator.zero_grad()


if __name__ == "__main__":
    main()
