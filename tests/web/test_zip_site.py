"""The site's archive has the files that its page loads, and no others."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT


def test_archive_has_only_what_the_page_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "web"))
    from zip_site import zip_site

    page = '<style></style><script src="assets/a-1.js" defer></script>'
    page += '<script src="assets/main-2.js" defer></script>'
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "memreplay.html").write_text("the other form")
    (tmp_path / "assets").mkdir()
    for name in ("a-0", "a-1", "main-2"):
        (tmp_path / "assets" / f"{name}.js").write_text(name)
    archive = zip_site(tmp_path)
    before = archive.read_bytes()
    with ZipFile(archive) as found:
        names = ["index.html", "assets/a-1.js", "assets/main-2.js"]
        assert found.namelist() == names
        assert found.read("assets/main-2.js") == b"main-2"
        assert [one.external_attr >> 16 for one in found.infolist()] == [0o644] * 3
    assert zip_site(tmp_path).read_bytes() == before
