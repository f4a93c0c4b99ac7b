"""Training with validation on larger batches that only calls eval(); `after` also uses
no_grad().
"""

import sys

import torch
from torch import nn

layers = [layer for _ in range(8) for layer in (nn.Linear(1_024, 1_024), nn.GELU())]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train() -> None:
    model.train()
    for _ in range(5):
        model(torch.randn(512, 1_024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def validate() -> None:
    model.eval()
    total = 0.0
    with torch.set_grad_enabled(sys.argv[1] != "after"):
        for _ in range(4):
            total += model(torch.randn(4_096, 1_024, device="cuda")).square().mean().item()


for _ in range(2):
    train()
    validate()
print(torch.cuda.max_memory_allocated())
