"""Trains a model's submodules with six optimizers, each for a while."""

import torch
from torch import nn, optim

model = nn.Sequential(*(nn.Linear(600, 600) for _ in range(6))).cuda()
kinds = (optim.SGD, optim.Adagrad, optim.RMSprop, optim.Adamax, optim.NAdam, optim.Adadelta)
for kind in kinds:
    optimizer = kind(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(64, 600).cuda()).pow(2).mean().backward()
        optimizer.step()
