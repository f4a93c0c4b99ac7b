"""Start, stop and dump a recording in a vLLM server's workers:
`--worker-extension-cls memreplay.integrations.vllm.WorkerExtension`.
"""

from __future__ import annotations

from typing import Any

from memreplay.integrations.running import Recording, safely

_recordings: list[Recording] = []  # of this worker; the last one may be running


class WorkerExtension:
    """Methods that vLLM adds to its workers, for `collective_rpc`: in Python, or POST
    /collective_rpc with VLLM_SERVER_DEV_MODE=1.
    """

    @safely
    def memreplay_start(self, **options: Any) -> str | None:
        """Begin a recording. Takes the options of `Recording`. Return the file it will write."""
        if not _recordings or not _recordings[-1].active:
            _recordings.append(Recording(**options))
            runner = getattr(self, "model_runner", None)
            _recordings[-1].begin(model=getattr(runner, "model", None))
        return _recordings[-1].path

    @safely
    def memreplay_dump(self, path: str | None = None) -> str | None:
        """Write a snapshot now, and continue. Return its path; None if nothing is recorded."""
        return _recordings[-1].dump(path) if _recordings else None

    @safely
    def memreplay_stop(self) -> str | None:
        """End, and write the snapshot. Return its path; None if nothing was recorded."""
        if not _recordings:
            return None
        _recordings[-1].end()
        return _recordings.pop().path
