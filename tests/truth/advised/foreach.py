"""AdamW, whose default kernels allocate temporaries for all parameters at once; `after` uses the
fused kernel.
"""

import sys

import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(2_048, 2_048) for _ in range(20)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=sys.argv[1] == "after" or None)
for _ in range(3):
    model(torch.randn(64, 2_048, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
