"""Check every link of a built site: pages, anchors, pictures, scripts.

    python ci/site_links.py build/site       list broken links, and exit with 1
    python ci/site_links.py --external ...   also list the links that leave the site

Uses no network, so only the syntax of external links is checked. Scripts, styles and pictures that
a page loads must be part of the site. LinkChecker 10.6 doesn't check that, and needs over 100 s for
a site that takes this script 1 s.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Elements that load something without a click.
LOADED = {"img", "script", "source", "iframe", "video", "audio"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "manifest"}


class Link(NamedTuple):
    """A link on a page."""

    target: str
    loaded: bool


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[Link] = []
        self.anchors: set[str] = {"", "top"}
        self.repeated: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect links and anchors."""
        found = {name: value or "" for name, value in attrs}
        for name in ("id", *(("name",) if tag == "a" else ())):
            if name in found:
                if name == "id" and found[name] in self.anchors:
                    self.repeated.append(found[name])
                self.anchors.add(found[name])
        if tag == "link":
            if LOADED_LINKS & {*found.get("rel", "").split()}:
                self.links.append(Link(found.get("href", ""), loaded=True))
        elif "href" in found:
            self.links.append(Link(found["href"], loaded=False))
        if tag in LOADED and found.get("src"):
            self.links.append(Link(found["src"], loaded=True))


def flaws_of(site: Path) -> tuple[list[str], dict[str, int]]:
    """Return the site's broken links, and the number of links to each external URL."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    flaws: list[str] = [] if pages else [f"{site} has no pages"]
    outside: dict[str, int] = {}
    for path, page in pages.items():
        where = path.relative_to(site.parent)
        flaws += [f"{where}: two elements have the id {one!r}" for one in page.repeated]
        for link in page.links:
            parts = urlsplit(link.target)
            if parts.scheme in ("data", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                outside[link.target] = outside.get(link.target, 0) + 1
                if why := wrong_form(link):
                    flaws.append(f"{where}: {link.target!r} {why}")
            elif why := wrong_place(site, path, parts.path, unquote(parts.fragment), pages):
                flaws.append(f"{where}: {link.target!r} {why}")
    return flaws, outside


def wrong_form(link: Link) -> str:
    """Return why an external link is invalid, or an empty string."""
    parts = urlsplit(link.target)
    if link.loaded:
        return "is loaded from elsewhere"
    if parts.scheme == "mailto":
        return "" if "@" in parts.path else "is no address"
    if parts.scheme != "https" or "." not in parts.netloc or any(c.isspace() for c in link.target):
        return "is no https link"
    return ""


def wrong_place(site: Path, page: Path, path: str, anchor: str, pages: dict[Path, Page]) -> str:
    """Return why a link within the site is broken, or an empty string."""
    if not path:
        target = page
    elif path.startswith("/"):
        target = site / unquote(path).lstrip("/")
    else:
        target = Path(*_normal(page.parent / unquote(path)))
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site):
        return "leaves the site"
    if not target.is_file():
        return "leads nowhere"
    if target in pages and anchor not in pages[target].anchors:
        return "has an anchor that is not there"
    return ""


def _normal(path: Path) -> list[str]:
    """Return the parts of a path, with `..` resolved."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return parts


def main(arguments: list[str]) -> int:
    """Check each site and print the findings."""
    flaws: list[str] = []
    for site in (Path(one) for one in arguments if one != "--external"):
        found, outside = flaws_of(site)
        flaws += found
        pages = len(list(site.rglob("*.html")))
        sys.stdout.write(
            f"{site}: {pages} pages, {len(outside)} places outside, {len(found)} flaws\n"
        )
        if "--external" in arguments:
            sys.stdout.writelines(f"  {target}\n" for target in sorted(outside))
    sys.stdout.writelines(f"{flaw}\n" for flaw in flaws)
    return int(bool(flaws))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
