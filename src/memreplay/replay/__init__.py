"""One device's trace, replayed: `Replay`, its measures (`Usage`), and the allocator's rules."""

from memreplay.replay.device import Replay
from memreplay.replay.usage import Usage

__all__ = ["Replay", "Usage"]
