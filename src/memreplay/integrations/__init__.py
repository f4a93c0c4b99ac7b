"""Record in training frameworks and servers: one module per framework, over the one recorder.

Importing this package imports no framework; importing a framework's module imports that framework.
"""

from memreplay.integrations.options import Options
from memreplay.integrations.running import Recording

__all__ = ["Options", "Recording"]
