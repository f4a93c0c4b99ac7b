"""A text generation server on a small GPU, whose caches scatter free memory until a request fails.

A conversation's cache grows by torch.cat: longer tensors are allocated and the shorter ones freed.
Caches of many lengths share segments, and keep them from being returned to the driver. In the end
the attention scores of a long prompt don't fit, twice.
"""

import argparse
import random

import torch
from kv_cache import KvCache
from model import WIDTH, Layer, forward

LAYERS = 6


class Server:
    """The layers, and the current conversations."""

    def __init__(self) -> None:
        self.layers = [Layer() for _ in range(LAYERS)]
        self.running: list[KvCache] = []

    def prefill(self, tokens: int) -> None:
        """Start a conversation with a prompt of this length."""
        cache = KvCache(LAYERS)
        forward(self.layers, cache, torch.zeros(tokens, WIDTH, device="cuda", dtype=torch.bfloat16))
        self.running.append(cache)

    def generate(self, cache: KvCache, tokens: int) -> None:
        """Generate a few more tokens in a conversation."""
        forward(self.layers, cache, torch.zeros(tokens, WIDTH, device="cuda", dtype=torch.bfloat16))


def answered(server: Server, tokens: int) -> bool:
    """Answer a prompt; return False if memory runs out."""
    try:
        server.prefill(tokens)
    except torch.OutOfMemoryError:
        return False
    return True


@torch.inference_mode()
def serve(output: str, rounds: int) -> None:
    """Start, extend and end conversations, then answer two long prompts."""
    chosen = random.Random(6)
    server = Server()
    for _ in range(rounds):
        if len(server.running) < 9:
            server.prefill(chosen.randint(600, 1400))
        server.generate(chosen.choice(server.running), chosen.randint(40, 160))
        if len(server.running) == 9 and chosen.random() < 0.4:
            server.running.pop(chosen.randrange(9))
    for _ in range(3):
        server.running.pop(chosen.randrange(len(server.running)))
    for tokens in (7168, 6144):
        if not answered(server, tokens):
            torch.cuda.memory._dump_snapshot(output)


def main() -> None:
    """Serve while recording; write the last failure's snapshot to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=32)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    torch.cuda.memory._record_memory_history(stacks="python")
    serve(asked.output, asked.rounds)


if __name__ == "__main__":
    main()
