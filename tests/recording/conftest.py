"""Skip these tests unless PyTorch is installed, in any build (ci/recording installs the CPU
build).
"""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
