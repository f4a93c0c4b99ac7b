"""Validation that adds up losses, so their graphs stay alive while the next epoch trains; `after`
uses no_grad().
"""

import sys

import torch
from torch import nn

layers = [layer for _ in range(8) for layer in (nn.Linear(1_024, 1_024), nn.ReLU())]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for _ in range(2):
    model.train()
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(1_024, 1_024, device="cuda")).mean().backward()
        optimizer.step()
    model.eval()
    total = torch.zeros((), device="cuda")
    with torch.set_grad_enabled(sys.argv[1] != "after"):
        for _ in range(4):
            total = total + model(torch.randn(2_048, 1_024, device="cuda")).mean()
print(torch.cuda.max_memory_allocated())
