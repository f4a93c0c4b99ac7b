"""Updates each parameter as soon as its gradient exists, in an autograd thread."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=3).cuda()
optimizers = {one: torch.optim.AdamW([one]) for one in model.parameters()}


def update(parameter: torch.Tensor) -> None:
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
    told.moment()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for _ in range(3):
    model(*get_batch(rows=2)).backward()
