"""Train a model split over two GPUs: half of the layers on each, the loss on the second."""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 1024
CLASSES = 32000


class Halves(nn.Module):
    """A model whose layers are on two devices."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CLASSES, WIDTH).to("cuda:0")
        self.first = nn.Sequential(*(self.layer() for _ in range(layers // 2))).to("cuda:0")
        self.second = nn.Sequential(*(self.layer() for _ in range(layers // 2))).to("cuda:1")
        self.head = nn.Linear(WIDTH, CLASSES).to("cuda:1")

    def layer(self) -> nn.Module:
        """Return a transformer layer."""
        return nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length) on the first device to (batch, length, classes) on the second."""
        halfway = self.first(self.tokens(x))
        return self.head(self.second(halfway.to("cuda:1")))


def train_step(model: Halves, optimizer: torch.optim.Optimizer) -> None:
    """Run one step on 4 x 512 random tokens."""
    tokens = torch.randint(CLASSES, (4, 512), device="cuda:0")
    logits = model(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens.to("cuda:1").flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    """Record three steps and write the snapshot to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    torch.cuda.memory._record_memory_history(stacks="python")
    model = Halves(asked.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(asked.steps):
        train_step(model, optimizer)
    torch.cuda.memory._dump_snapshot(asked.output)


if __name__ == "__main__":
    main()
