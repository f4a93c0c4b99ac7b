"""Record in Lightning's Trainer."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from memreplay.integrations.running import marked


def package() -> Any:
    """Return the Lightning that the program uses: it's published under two names."""
    loaded = [name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules]
    return import_module(loaded[0] if loaded else "lightning.pytorch")


Callback: Any = package().Callback


class MemoryCallback(Callback):  # type: ignore[misc]
    """Record what the trainer runs: ``Trainer(…, callbacks=[MemoryCallback(steps=(10, 12))])``.

    Takes the options of `Recording`. The default file is in `default_root_dir`. A step is an
    optimizer step, or a batch in validation, testing and prediction.
    """

    def __init__(self, **options: Any) -> None:
        self.recording = marked(options)
        self.global_step = 0
        # Lightning only sets its own handlers for signals that have none, and calls those for
        # SIGTERM, which would end the process.
        self.recording.signals = False

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin."""
        self.global_step = trainer.global_step
        self.recording.begin(
            model=pl_module, folder=trainer.default_root_dir or "", done=trainer.global_step
        )

    def on_train_start(self, *_: Any) -> None:
        """Handle signals: Lightning has set its own handlers."""
        self.recording.handle_signals()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """End a step if the optimizer has stepped: not while gradients accumulate."""
        if trainer.global_step != self.global_step:
            self.global_step = trainer.global_step
            self.recording.step()

    def on_test_batch_end(self, *_: Any) -> None:
        """End a step."""
        self.recording.step()

    def on_predict_batch_end(self, *_: Any) -> None:
        """End a step."""
        self.recording.step()

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        """End a step, unless the validation belongs to a training."""
        if trainer.state.fn == "validate":
            self.recording.step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End, and write the snapshot."""
        self.recording.end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End, and write the snapshot."""
        self.recording.end()
