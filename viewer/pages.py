"""Write what pages of some snapshots would hold, for the tests of the script that reads them.

python viewer/pages.py FOLDER SNAPSHOT...
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import memreplay
from memreplay.export.page.making import page_data
from memreplay.render.record_json import render_json


def main(folder: Path, snapshots: list[Path]) -> None:
    """A file a snapshot: the records, and the columns in base64."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in snapshots:
        data, columns = page_data(memreplay.open(path))
        page = {
            "data": json.loads(render_json(data)),
            "columns": base64.b64encode(columns).decode(),
        }
        (folder / f"{path.name}.json").write_text(json.dumps(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
