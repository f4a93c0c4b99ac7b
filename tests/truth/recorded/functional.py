"""Computes gradients with torch.func: for each row using vmap, with parameters as arguments."""

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from tests.truth import stock

with stock.recorded():
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1)).cuda()
    x = torch.randn(32, 64).cuda()

    def loss(parameters: Any, row: Any) -> Any:
        return functional_call(model, parameters, (row.unsqueeze(0),)).sum()

    for _ in range(3):
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        of_rows = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
        stock.take(model)
        del of_rows
        stock.take(model)
    models = [nn.Linear(64, 64).cuda() for _ in range(3)]
    together, _ = stack_module_state(models)
    vmap(lambda p, x: functional_call(models[0], p, (x,)), in_dims=(0, None))(together, x)
    stock.take(model, *models)
