"""Write the data of some snapshots' pages, for the tests of the script that reads it.

python viewer/pages.py FOLDER SNAPSHOT...
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import memreplay
from memreplay.export.page.building import page_data
from memreplay.export.page.pages import page_of
from memreplay.render.record_json import render_json


def main(folder: Path, snapshots: list[Path]) -> None:
    """Write one file per snapshot: its page, and the page's columns in base64."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in snapshots:
        page, columns = page_of([page_data(memreplay.open(path))])
        written = {
            "page": json.loads(render_json(page)),
            "columns": [base64.b64encode(one).decode() for one in columns],
        }
        (folder / f"{path.name}.json").write_text(json.dumps(written), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
