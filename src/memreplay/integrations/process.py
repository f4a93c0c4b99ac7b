"""Record a whole process, if a framework starts it and only lets you name a function or a module.

Ray's `worker_process_setup_hook` is `memreplay.integrations.process.start`. For verl, set
VERL_USE_EXTERNAL_MODULES to `memreplay.integrations.autostart`.
"""

from __future__ import annotations

import os
from typing import Any

from memreplay.integrations.running import Recording, safely
from memreplay.recording.torch_here import find_torch

_recording: list[Recording] = []  # this process's recording


@safely
def start(**options: Any) -> None:
    """Begin when this process first uses a device, and end with the process.

    Takes the options of `Recording`. Processes without a device aren't recorded.
    """
    if _recording or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return
    _recording.append(Recording(**options))
    torch, _ = find_torch()
    for kind in ("cuda", "xpu"):
        devices = getattr(torch, kind, None)
        queue = getattr(devices, "_queued_calls", None)
        if devices is None or queue is None:
            continue
        if devices.is_initialized():
            _recording[0].begin()
        else:
            queue.append((_recording[0].begin, []))
