"""Write the run blocks of workflows and of the action as scripts, for shellcheck.

python ci/workflow_blocks.py FOLDER FILE...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

# GitHub's default shell, also used if a step asks for bash.
BASH = "#!/usr/bin/env bash\n"


def steps_of(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a workflow's jobs, or of a composite action."""
    yield from document.get("runs", {}).get("steps", [])
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])


def scripts(text: str) -> Iterator[str]:
    """Yield the run blocks of a file. An expression becomes a single shell word."""
    for step in steps_of(yaml.safe_load(text)):
        if "run" in step:
            yield BASH + re.sub(r"\$\{\{.*?\}\}", "EXPRESSION", step["run"])


def main(folder: Path, files: list[Path]) -> None:
    """Write all run blocks, each to a file named after its workflow and position."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        for number, script in enumerate(scripts(file.read_text(encoding="utf-8")), 1):
            Path(folder, f"{file.stem}-{number}.sh").write_text(script, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
