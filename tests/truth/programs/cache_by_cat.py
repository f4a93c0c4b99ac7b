"""Generates text with a cache that is reallocated, one entry longer, for each token."""

import torch

from tests.truth.models import Gpt

model = Gpt(layers=2, width=128).cuda().eval()
caches = [torch.empty(4, 64 + 16 * i, 128, device="cuda") for i in range(6)]
with torch.inference_mode():
    for i in range(60):
        model(torch.randint(5000, (4, 16 + i)).cuda())
        for j in range(6):
            caches[j] = torch.cat([caches[j], torch.empty(4, 1 + j, 128, device="cuda")], dim=1)
    del caches[::2]
