"""Small trainings, one per framework: python -m tests.frameworks.programs NAME FOLDER."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import torch

STEPS = 4
VOCABULARY = 128


def gpt(width: int = 64) -> Any:
    """Return a small model of transformers."""
    transformers = import_module("transformers")
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=64, n_embd=width, n_layer=2, n_head=2
        )
    )


def texts(count: int = 64) -> list[dict[str, Any]]:
    ids = torch.arange(32) % VOCABULARY
    ones = torch.ones_like(ids)
    return [{"input_ids": ids, "labels": ids, "attention_mask": ones} for _ in range(count)]


def arguments(folder: str, kind: Any, **more: Any) -> Any:
    """Return the arguments of a Trainer."""
    return kind(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        **more,
    )


def transformers(folder: str, **options: Any) -> None:
    library = import_module("transformers")
    callback = import_module("memreplay.integrations.transformers").MemoryCallback(**options)
    given = arguments(folder, library.TrainingArguments, gradient_accumulation_steps=2)
    library.Trainer(gpt(), given, train_dataset=texts(), callbacks=[callback]).train()


def transformers_oom(folder: str) -> None:
    """Find a batch size: the first ones don't fit, and the Trainer begins again."""
    library = import_module("transformers")
    callback = import_module("memreplay.integrations.transformers").MemoryCallback()
    given = library.TrainingArguments(
        output_dir=folder,
        max_steps=2,
        per_device_train_batch_size=1 << 12,
        auto_find_batch_size=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    library.Trainer(gpt(1024), given, train_dataset=texts(1 << 13), callbacks=[callback]).train()


def trl(folder: str) -> None:
    library = import_module("trl")
    callback = import_module("memreplay.integrations.transformers").MemoryCallback(steps=(2, 3))

    class Collated:
        def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
            return {
                name: torch.stack([torch.as_tensor(row["input_ids"]) for row in rows]) ** power
                for name, power in (("input_ids", 1), ("labels", 1), ("attention_mask", 0))
            }

    datasets = import_module("datasets")
    rows = [{name: value.tolist() for name, value in row.items()} for row in texts()]
    library.SFTTrainer(
        model=gpt(),
        args=arguments(
            folder,
            library.SFTConfig,
            dataset_kwargs={"skip_prepare_dataset": True},
            max_length=None,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        data_collator=Collated(),
        processing_class=tokenizer(),
        callbacks=[callback],
    ).train()


def tokenizer() -> Any:
    tokenizers, library = import_module("tokenizers"), import_module("transformers")
    words = {f"w{number}": number for number in range(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    return library.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="w1", pad_token="w2", unk_token="w0"
    )


def lightning(folder: str) -> None:
    library = import_module("lightning")
    callback = import_module("memreplay.integrations.lightning").MemoryCallback()

    class Model(library.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(64, 64)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.net(batch[0]).square().mean()

        def validation_step(self, batch: Any, _: int) -> Any:
            self.log("loss", self.net(batch[0]).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    rows = torch.utils.data.TensorDataset(torch.randn(64, 64))
    loader = torch.utils.data.DataLoader(rows, 4)
    library.Trainer(
        accelerator="gpu",
        devices=1,
        max_steps=STEPS,
        accumulate_grad_batches=2,
        limit_val_batches=2,
        logger=False,
        enable_checkpointing=False,
        default_root_dir=folder,
        callbacks=[callback],
    ).fit(Model(), loader, loader)


def accelerate(folder: str) -> None:
    library = import_module("accelerate")
    tracker = import_module("memreplay.integrations.accelerate").MemoryTracker(
        path=f"{folder}/memory.rank{{rank}}.pickle", steps="2-3"
    )
    accelerator = library.Accelerator(log_with=tracker)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    rows = torch.utils.data.TensorDataset(torch.randn(4 * STEPS, 64))
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(rows, 4)
    )
    accelerator.init_trackers("memory")
    for (x,) in loader:
        accelerator.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        accelerator.log({"loss": 0})
    accelerator.end_training()


def accelerate_oom(folder: str) -> None:
    """Let accelerate find a batch size: the first ones don't fit."""
    library = import_module("accelerate.utils")
    recording = import_module("memreplay.integrations").Recording(
        path=f"{folder}/memory.rank{{rank}}.pickle"
    )

    @library.find_executable_batch_size(starting_batch_size=64)  # type: ignore[untyped-decorator]
    def train(batch: int) -> int:
        kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(batch)]
        return len(kept)

    with recording:
        print("fits", train())


def lightning_oom(folder: str) -> None:
    """Let Lightning find a batch size: it doubles it until a batch doesn't fit."""
    library = import_module("lightning")
    callback = import_module("memreplay.integrations.lightning").MemoryCallback()
    finder = import_module("lightning.pytorch.callbacks").BatchSizeFinder

    class Model(library.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(64, 64)
            self.batch_size = 4

        def training_step(self, batch: Any, _: int) -> Any:
            kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in batch[0]]
            return self.net(batch[0]).square().mean() * len(kept)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self) -> Any:
            rows = torch.utils.data.TensorDataset(torch.randn(256, 64))
            return torch.utils.data.DataLoader(rows, self.batch_size)

    library.Trainer(
        accelerator="gpu",
        devices=1,
        max_steps=2,
        logger=False,
        default_root_dir=folder,
        callbacks=[callback, finder(steps_per_trial=1)],
    ).fit(Model())


def torchtune(folder: str) -> None:
    """Create the optimizer from a configuration, as recipes do, and offload activations."""
    config, training = import_module("torchtune.config"), import_module("torchtune.training")
    models = import_module("torchtune.models.llama2")
    with torch.device("cuda"):
        model = models.llama2(
            vocab_size=VOCABULARY,
            num_layers=2,
            num_heads=2,
            num_kv_heads=2,
            embed_dim=512,
            max_seq_len=64,
        )
    given = {
        "_component_": "memreplay.integrations.torchtune.optimizer",
        "of": "torch.optim.AdamW",
        "memreplay": {"path": f"{folder}/memory.rank{{rank}}.pickle", "steps": "2-3"},
        "lr": 1e-4,
    }
    optimizer = config.instantiate(
        import_module("omegaconf").OmegaConf.create(given), model.parameters()
    )
    offloading = training.get_act_offloading_ctx_manager(model, enable_activation_offloading=True)
    for _ in range(STEPS):
        with offloading:
            out = model(torch.zeros(4, 64, dtype=torch.long, device="cuda"))
        (out if torch.is_tensor(out) else torch.cat(list(out))).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


PROGRAMS = {
    program.__name__: program
    for program in (
        *(transformers, transformers_oom, trl, lightning, lightning_oom, accelerate),
        *(accelerate_oom, torchtune),
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2])
