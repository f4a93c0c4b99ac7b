"""Trains a GPT in lower precision, with a GradScaler."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=3).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for i in range(5):
    with torch.autocast("cuda", torch.bfloat16 if i % 2 else torch.float16):
        loss = model(*get_batch())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=i % 3 > 0)
    told.moment()
