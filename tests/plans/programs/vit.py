"""timm's ViT-S/16, in bfloat16 by autocast."""

from __future__ import annotations

from importlib import import_module

import torch
from torch.nn import functional

BATCH, CLASSES = 128, 1000


def main() -> None:
    timm = import_module("timm")
    with torch.device("cuda"):
        model = timm.create_model("vit_small_patch16_224", num_classes=CLASSES)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        images = torch.randn(BATCH, 3, 224, 224, device="cuda")
        classes = torch.randint(CLASSES, (BATCH,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
