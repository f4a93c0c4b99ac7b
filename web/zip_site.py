"""Put the site's files into one archive, for a release."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def zip_site(folder: Path) -> Path:
    """Write `memreplay-site.zip` with index.html and the assets that it loads; return its path.

    Equal files make an equal archive.
    """
    archive = folder / "memreplay-site.zip"
    page = (folder / "index.html").read_text(encoding="utf-8")
    names = ["index.html", *re.findall(r'<script src="([^"]+)"', page)]
    with ZipFile(archive, "w") as out:
        for name in names:
            file = ZipInfo(name)
            file.external_attr = 0o644 << 16
            out.writestr(file, (folder / name).read_bytes(), ZIP_DEFLATED, 9)
    return archive
