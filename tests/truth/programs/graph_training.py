"""Captures a whole training step, as torch.cuda.make_graphed_callables does."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
model = torch.cuda.make_graphed_callables(model.cuda(), (torch.randn(32, 256).cuda(),))
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
for _ in range(6):
    model(torch.randn(32, 256).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
