"""PyTorch's own memory profiler runs alongside the recorder."""

import contextlib
import sys
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tests.truth import stock, told


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(200, 300), nn.Linear(300, 50)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        y = y.relu_() if "--inplace" in sys.argv else torch.relu(y)
        return self.second(y)


with stock.recorded():
    sys.setprofile(None)  # the profiler sets its own recording options
    options = {"profile_memory": True, "record_shapes": True, "with_stack": True}
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        model = Mlp().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            x = torch.randn(70, 200).cuda()
            targets = torch.randn(70, 50).cuda()
            autocast: Any = contextlib.nullcontext()
            if "--amp" in sys.argv:
                autocast = torch.autocast("cuda", torch.bfloat16)
            with autocast:
                loss = nn.functional.mse_loss(model(x).float(), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
found = profiler._memory_profile()
told.timeline(
    [
        {
            "action": action.name,
            # Allocations inside kernels aren't tensors, so the profiler gives them no category.
            "key": (key.id, str(key.storage)) if hasattr(key, "id") else None,
            "category": getattr(found._categories.get(key, version), "name", "None"),
            "bytes": n_bytes,
        }
        for _, action, (key, version), n_bytes in found.timeline
        if key.device.type == "cuda"
    ]
)
