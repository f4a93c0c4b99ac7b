"""Write, as JSON, what programs read on the host and on the card:
`python -m tests.truth.values OUT [PROGRAMS]`.

PROGRAMS is a JSON file of programs as generated.py describes them, or the name of another module of
programs: uncertain, choices, places; without it, all of everyday.py.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from tests.truth.values import choices, everyday, generated, places, uncertain


def plain(it: Any) -> Any:
    """Return the same values as JSON has them."""
    if isinstance(it, (list, tuple, torch.Size)):
        return [plain(one) for one in it]
    return it


def main() -> None:
    programs = everyday.PROGRAMS
    named = {"uncertain": uncertain, "choices": choices, "places": places}
    if sys.argv[2:] and sys.argv[2] in named:
        programs = named[sys.argv[2]].PROGRAMS
    elif len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            programs = {str(i): generated.program(one) for i, one in enumerate(json.load(file))}
    found = {}
    for name, made in programs.items():
        found[name] = [plain(made(device)) for device in ("cpu", "cuda")]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
