"""Gradients that are zeroed instead of freed; `after` frees them."""

import sys

import torch
from torch import nn

layers = [layer for _ in range(12) for layer in (nn.Linear(1_024, 1_024), nn.GELU())]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad(set_to_none=sys.argv[1] == "after")
    model(torch.randn(4_096, 1_024, device="cuda")).square().mean().backward()
    optimizer.step()
print(torch.cuda.max_memory_allocated())
