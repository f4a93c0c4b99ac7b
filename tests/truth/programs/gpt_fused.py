"""Trains a GPT with Adam in one kernel, which allocates only its state."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(width=512, heads=8).cuda().bfloat16()
optimizer = torch.optim.Adam(model.parameters(), fused=True)
for _ in range(5):
    model(*get_batch(length=512)).backward()
    optimizer.step()
    told.stepped()
    optimizer.zero_grad()
told.categories(
    optimizer_state=told.nbytes(
        one for state in optimizer.state.values() for one in state.values()
    ),
)
