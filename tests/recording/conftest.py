"""Tests that need PyTorch, its CPU build or another; without it there are none (ci/recording)."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
