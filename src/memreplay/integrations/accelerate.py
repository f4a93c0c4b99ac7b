"""Record with accelerate: `Accelerator(log_with=MemoryTracker())`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memreplay.integrations.running import Recording

GeneralTracker: Any = import_module("accelerate.tracking").GeneralTracker


class MemoryTracker(GeneralTracker):  # type: ignore[misc]
    """Record from `accelerator.init_trackers()` to `accelerator.end_training()`, on all ranks.

    Takes the options of `Recording`. Steps end when the optimizer steps.
    """

    name = "memreplay"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.recording = Recording(**options)

    @property
    def tracker(self) -> Recording:
        """The recording."""
        return self.recording

    def start(self) -> None:
        """Begin."""
        self.recording.begin()

    def store_init_configuration(self, values: Any) -> None:
        """Begin, in versions before 1.0, which don't call `start`."""
        self.recording.begin()

    def log(self, values: Any, step: int | None = None, **_: Any) -> None:
        """Ignore the program's metrics."""

    def finish(self) -> None:
        """End, and write the snapshot."""
        self.recording.end()
