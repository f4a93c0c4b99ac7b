"""List the Pythons for which cibuildwheel builds or tests a release, by platform.

python ci/wheel_builds.py
"""

from __future__ import annotations

import sys

# The abi3 wheel is built with 3.11 and only tested with 3.12 to 3.14. Free-threaded Python has its
# own wheel.
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
    """Return the names as cibuildwheel spells them."""
    return [f"{python}-{platform}" for python in PYTHONS for platform in PLATFORMS]


if __name__ == "__main__":
    sys.stdout.write("\n".join(builds()) + "\n")
