"""Adds up the bytes that a step holds between forward and backward, by looking at all existing
tensors.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.data import DataLoader

from tests.truth import told

model = nn.Sequential(
    nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512), nn.Tanh()
).cuda()
optimizer = torch.optim.Adam(model.parameters())
# cuBLAS allocates its workspace at the first matrix product, which shouldn't happen in the measured
# forward pass.
warm = torch.addmm(torch.ones(8).cuda(), torch.ones(8, 8).cuda(), torch.ones(8, 8).cuda())
parameters = {one.untyped_storage().data_ptr() for one in model.parameters()}
for i in range(4):
    saved: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor, saved: list[torch.Tensor] = saved) -> Any:
        saved.append(tensor)
        return tensor

    for inputs in DataLoader(torch.randn(256 + 64 * i, 512), batch_size=1000):
        inputs = inputs.cuda()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(inputs)
    others = {*parameters, inputs.untyped_storage().data_ptr()}
    told.categories(
        parameters=told.nbytes(model.parameters()),
        activations=told.nbytes(
            one for one in (*saved, y) if one.untyped_storage().data_ptr() not in others
        ),
        optimizer_state=told.nbytes(
            one for state in optimizer.state.values() for one in state.values() if one.is_cuda
        ),
    )
    saved.clear()
    y.sum().backward()
    del y
    optimizer.step()
    optimizer.zero_grad()
