"""Trains a convolutional network, which uses cuDNN."""

import torch
from torch import nn

from tests.truth import told

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(inplace=True),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for rows in (16, 16, 8, 16, 5):
    images, labels = torch.randn(rows, 3, 64, 64).cuda(), torch.randint(10, (rows,)).cuda()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    told.stepped()
    optimizer.zero_grad()
