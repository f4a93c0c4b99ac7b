"""A UNet for segmentation, in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTHS, BATCH, SIZE, CLASSES = (32, 64, 128, 256), 8, 192, 8


class Level(nn.Module):
    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)

    def forward(self, x: Any) -> Any:
        x = functional.silu(self.norm1(self.conv1(x)))
        return functional.silu(self.norm2(self.conv2(x)))


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        pairs = list(zip((3, *WIDTHS), WIDTHS, strict=False))
        self.down = nn.ModuleList(Level(given, width) for given, width in pairs)
        back = list(zip(reversed(WIDTHS), reversed(WIDTHS[:-1]), strict=False))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(one, to, 2, stride=2) for one, to in back)
        self.up = nn.ModuleList(Level(2 * to, to) for _, to in back)
        self.last = nn.Conv2d(WIDTHS[0], CLASSES, 1)

    def forward(self, x: Any) -> Any:
        kept: list[Any] = []
        for level in self.down:
            x = level(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        for grow, level in zip(self.grow, self.up, strict=True):
            x = level(torch.cat([grow(x), kept.pop()], 1))
        return self.last(x)


def main() -> None:
    model = Unet().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        images = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda")
        classes = torch.randint(CLASSES, (BATCH, SIZE, SIZE), device="cuda")
        functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
