"""Trains a small GPT as most scripts do, and sums up its parameters and optimizer state."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

torch.manual_seed(0)
model = Gpt().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    tokens, targets = get_batch()
    loss = model(tokens, targets)
    loss.backward()
    optimizer.step()
    told.stepped()
    optimizer.zero_grad()
del loss
told.categories(
    parameters=told.nbytes(model.parameters()),
    optimizer_state=told.nbytes(
        one for state in optimizer.state.values() for one in state.values() if one.is_cuda
    ),
    data_loading=told.nbytes([tokens, targets]),
)
