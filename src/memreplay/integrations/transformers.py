"""Record in the Trainer of transformers, and in the trainers of TRL, which extend it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memreplay.integrations.running import marked

TrainerCallback: Any = import_module("transformers").TrainerCallback


class MemoryCallback(TrainerCallback):  # type: ignore[misc]
    """Record the training: ``Trainer(…, callbacks=[MemoryCallback(steps=(10, 12))])``.

    Takes the options of `Recording`. The default file is in the trainer's output folder.
    """

    def __init__(self, **options: Any) -> None:
        self.recording = marked(options)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, model: Any = None, **given: Any
    ) -> None:
        """Begin, or continue with a smaller batch (`auto_find_batch_size`)."""
        self.recording.begin(
            model=model,
            optimizer=given.get("optimizer"),
            folder=args.output_dir,
            done=state.global_step,
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step."""
        self.recording.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End, and write the snapshot."""
        self.recording.end()
