"""Changes the dtype and device of parameters that PyTorch swaps.

Swapping requires that a parameter has no weak references. PyTorch swaps parameters of wrapper
subclasses (argument `subclass`), or all of them if the program asks for that (`asked`); with
`plain`, none.
"""

import sys

import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from tests.truth import stock

WIDTH = 64

with stock.recorded():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    if sys.argv[1] == "subclass":
        for layer in (model[0], model[2]):
            parts = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH)
            layer.weight = nn.Parameter(TwoTensor(*parts))
    elif sys.argv[1] == "asked":
        torch.__future__.set_swap_module_params_on_conversion(True)
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(dtype: torch.dtype) -> None:
        data = torch.empty(8, WIDTH, device="cuda", dtype=dtype)
        model(data).sum().backward()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.step()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.zero_grad()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))

    for _ in range(2):
        step(torch.float32)
    optimizer.state.clear()  # leaves the parameter unchanged
    model.double()
    step(torch.float64)
    optimizer.state.clear()
    model.cpu()
    model.cuda()
    step(torch.float64)
