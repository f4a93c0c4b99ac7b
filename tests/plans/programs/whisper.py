"""A small Whisper, in float32: an encoder of sounds and a decoder of text."""

from __future__ import annotations

from importlib import import_module

import torch

VOCABULARY, FRAMES, LENGTH, BATCH = 8000, 3000, 128, 4


def main() -> None:
    transformers = import_module("transformers")
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        dropout=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    with torch.device("cuda"):
        model = transformers.WhisperForConditionalGeneration(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(3):
        sounds = torch.randn(BATCH, 80, FRAMES, device="cuda")
        tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH), device="cuda")
        model(input_features=sounds, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
