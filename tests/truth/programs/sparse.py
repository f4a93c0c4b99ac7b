"""Trains embeddings with sparse gradients."""

import torch
from torch import nn

model = nn.EmbeddingBag(20_000, 64, sparse=True, mode="sum").cuda()
optimizer = torch.optim.SparseAdam(model.parameters())
for i in range(6):
    model(torch.randint(20_000, (64, 20 + i)).cuda()).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
