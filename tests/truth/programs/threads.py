"""Allocates in one thread and frees in another."""

import queue
import random
import threading

import torch

torch.cuda.init()
passed: "queue.Queue[torch.Tensor | None]" = queue.Queue(8)


def consume(seed: int) -> None:
    chance, kept = random.Random(seed), []
    while (tensor := passed.get()) is not None:
        try:
            kept.append(tensor.clone())
        except torch.OutOfMemoryError:  # other memory may have used up the card
            kept.clear()
        del tensor
        if len(kept) > 5:
            kept.pop(chance.randrange(6))


threads = [threading.Thread(target=consume, args=(i,)) for i in range(3)]
for one in threads:
    one.start()
chance = random.Random(7)
try:
    for _ in range(400):
        passed.put(torch.empty(chance.randrange(1, 2_000_000), device="cuda"))
finally:
    for _thread in threads:
        passed.put(None)
    for one in threads:
        one.join()
