"""BERT that fills in masked words, in float16 with a scaler of gradients."""

from __future__ import annotations

from importlib import import_module

import torch

VOCABULARY, LENGTH, BATCH = 30522, 256, 16


def main() -> None:
    transformers = import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        num_hidden_layers=8,
        num_attention_heads=8,
        intermediate_size=2048,
    )
    with torch.device("cuda"):
        model = transformers.BertForMaskedLM(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")
        mask = torch.ones_like(tokens)
        mask[:, LENGTH // 2 :] = 0
        with torch.autocast("cuda", torch.float16):
            loss = model(input_ids=tokens, attention_mask=mask, labels=tokens).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
