"""Run out of memory in one way, in the current folder: python -m tests.truth.failing NAME."""

import sys

from tests.truth.failing.programs import PROGRAMS

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
