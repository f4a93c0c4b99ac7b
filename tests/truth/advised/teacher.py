"""Distillation whose teacher records a graph that nobody uses; `after` runs it under no_grad().

`retained` has no teacher: each step runs backward twice through the same graph, so it needs the
graph.
"""

import sys

import torch
from torch import nn


def model(width: int, layers: int) -> nn.Sequential:
    return nn.Sequential(
        *(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.GELU()))
    ).cuda()


teacher, student = model(1_024, 12).eval(), model(1_024, 2)
optimizer = torch.optim.SGD(student.parameters(), 0.1)
for _ in range(6):
    data = torch.randn(2_048, 1_024, device="cuda")
    if sys.argv[1] == "retained":
        result = teacher(student(data))
        result.square().mean().backward(retain_graph=True)
        result.abs().mean().backward(retain_graph=True)
        student(data).mean().backward()
    else:
        with torch.set_grad_enabled(sys.argv[1] != "after"):
            target = teacher(data)
        nn.functional.mse_loss(student(data), target.detach()).backward()
    optimizer.step()
    optimizer.zero_grad()
    teacher.zero_grad()
print(torch.cuda.max_memory_allocated())
