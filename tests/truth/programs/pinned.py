"""Loads batches from pinned memory, each while the previous one is in use."""

import torch
from torch import nn

model = nn.Linear(4096, 1024).cuda()
copies = torch.cuda.Stream()
ahead = None
for i in range(25):
    host = torch.randn(64 + i % 4, 4096).pin_memory()
    with torch.cuda.stream(copies):
        batch = host.cuda(non_blocking=True)
    if ahead is not None:
        torch.cuda.current_stream().wait_stream(copies)
        ahead.record_stream(torch.cuda.current_stream())
        model(ahead).sum().backward()
    ahead = batch
