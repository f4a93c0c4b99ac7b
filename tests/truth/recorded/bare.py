"""Trains tensors that aren't in a module, keeps an averaged model, and resumes from a saved
state.
"""

import copy

import torch
from torch import nn

from tests.truth import stock

with stock.recorded():
    model = nn.Sequential(nn.Linear(256, 512), nn.BatchNorm1d(512), nn.Linear(512, 64)).cuda()
    average = copy.deepcopy(model)
    scale = torch.ones(1000, 64).cuda().requires_grad_()
    optimizer = torch.optim.Adam([*model.parameters(), scale])
    lists = {"state": {}, "param_groups": optimizer.state_dict()["param_groups"]}
    for i, parameter in enumerate((*model.parameters(), scale)):
        state = {"exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
        lists["state"][i] = {"step": torch.tensor(3.0), **state}
    optimizer.load_state_dict(lists)
    del lists, state, parameter
    stock.take(model, average, optimizers=optimizer)
    for _ in range(3):
        x = torch.randn(32, 256).cuda()
        (model(x).sum() * scale).sum().backward()
        stock.take(model, average, optimizers=optimizer, inputs=stock.held([x]))
        optimizer.step()
        optimizer.zero_grad()
        stock.take(model, average, optimizers=optimizer, inputs=stock.held([x]))
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(parameter, 0.1)
    other = copy.deepcopy(model)  # no optimizer has made a step for this model
    never = torch.optim.Adam(other.parameters())
    kept = {i: one for i, one in optimizer.state_dict()["state"].items() if i < 6}
    never.load_state_dict({"state": kept, "param_groups": never.state_dict()["param_groups"]})
    stock.take(model, average, other, optimizers=(optimizer, never))
