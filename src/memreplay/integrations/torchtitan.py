"""Record in torchtitan: `--experimental.custom_import memreplay.integrations.torchtitan
--model.converters memreplay`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memreplay.integrations.running import marked


class MemoryConverter:
    """A model converter that converts nothing: it begins when the model is built, and is called
    after each step. MEMREPLAY_OPTIONS in the environment has the options of `Recording`.
    """

    def __init__(self, job_config: Any, parallel_dims: Any) -> None:
        self.recording = marked({})
        self.folder = job_config.job.dump_folder

    def convert(self, model: Any) -> None:
        """Begin."""
        self.recording.begin(folder=self.folder)

    def post_optimizer_hook(self, model: Any) -> None:
        """End a step."""
        self.recording.step()


import_module("torchtitan.protocols.model_converter").register_model_converter(
    MemoryConverter, "memreplay"
)
