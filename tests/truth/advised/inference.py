"""Inference that keeps a graph; `after` runs in inference mode."""

import sys

import torch
from torch import nn

layers = [layer for _ in range(12) for layer in (nn.Linear(1_024, 1_024), nn.GELU())]
model = nn.Sequential(*layers).cuda().eval()
with torch.inference_mode(sys.argv[1] == "after"):
    for _ in range(4):
        found = model(torch.randn(1_024, 1_024, device="cuda")).argmax(-1)
print(torch.cuda.max_memory_allocated())
