"""Lists what cibuildwheel builds or tests for a release: the Pythons, on each platform.

python ci/wheel_builds.py
"""

from __future__ import annotations

import sys

# 3.11 builds abi3, which 3.12 to 3.14 only test; without the GIL there is another.
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t")
PLATFORMS = (
    "manylinux_x86_64",
    "manylinux_aarch64",
    "musllinux_x86_64",
    "musllinux_aarch64",
    "macosx_x86_64",
    "macosx_arm64",
    "win_amd64",
)


def builds() -> list[str]:
    """As cibuildwheel names them."""
    return [f"{python}-{platform}" for python in PYTHONS for platform in PLATFORMS]


if __name__ == "__main__":
    sys.stdout.write("\n".join(builds()) + "\n")
