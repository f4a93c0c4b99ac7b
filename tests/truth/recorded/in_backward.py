"""Steps during the backward pass, with one optimizer per parameter, and keeps no gradients."""

from typing import Any

import torch

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

with stock.recorded():
    model = Gpt(layers=2, width=128, vocabulary=1000).cuda()
    optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters()}

    def step(parameter: Any) -> None:
        optimizers[parameter].step()
        # Gradients of other parameters are in flight, and aren't in `.grad` yet.
        stock.take_states(optimizers.values())
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        model(*get_batch(rows=2, vocabulary=1000)).backward()
        stock.take(model, optimizers=optimizers.values())
