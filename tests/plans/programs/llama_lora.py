"""A small Llama in bfloat16, of which LoRA's adapters are trained."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

VOCABULARY, LENGTH, BATCH = 32000, 1024, 4


def lora() -> Any:
    transformers, peft = import_module("transformers"), import_module("peft")
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=8,
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    adapters = peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return peft.get_peft_model(model, adapters)


def main() -> None:
    model = lora()
    optimizer = torch.optim.AdamW(one for one in model.parameters() if one.requires_grad)
    for _ in range(3):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
