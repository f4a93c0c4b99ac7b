"""Tests that need PyTorch, its CPU build or another: ci/recording gets one."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch; ci/recording gets it")
