"""Serve with CUDA graphs for three batch sizes in one private pool, along with eager work."""

import argparse

import torch
from torch import Tensor, nn

WIDTH = 2048


class Graphed:
    """A model captured once per batch size, largest first, so that all share one pool."""

    def __init__(self, model: nn.Module, sizes: tuple[int, ...]) -> None:
        self.inputs: dict[int, Tensor] = {}
        self.outputs: dict[int, Tensor] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        pool = torch.cuda.graph_pool_handle()
        for size in sorted(sizes, reverse=True):
            self.inputs[size] = torch.zeros(size, WIDTH, device="cuda")
            self.capture(model, size, pool)

    def capture(self, model: nn.Module, size: int, pool: tuple[int, int]) -> None:
        """Run once without a graph to warm up, then capture the graph."""
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            model(self.inputs[size])
        torch.cuda.current_stream().wait_stream(beside)
        self.graphs[size] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graphs[size], pool=pool):
            self.outputs[size] = model(self.inputs[size])

    def __call__(self, x: Tensor) -> Tensor:
        """Return the output for `x`, of shape (batch, width); valid until the next call."""
        self.inputs[len(x)].copy_(x)
        self.graphs[len(x)].replay()
        return self.outputs[len(x)]


@torch.inference_mode()
def main() -> None:
    """Capture the graphs, serve some batches, and write the snapshot to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    torch.cuda.memory._record_memory_history(stacks="python")
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(8)]
    graphed = Graphed(nn.Sequential(*layers).cuda(), (512, 2048, 8192))
    answers = []
    for request in range(asked.requests):
        size = (512, 2048, 8192)[request % 3]
        output = graphed(torch.randn(size, WIDTH, device="cuda"))
        answers.append(output.topk(8).indices.cpu())
    torch.cuda.memory._dump_snapshot(asked.output)


if __name__ == "__main__":
    main()
