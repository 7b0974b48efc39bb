"""Links of a built site: those inside it must lead somewhere, and nothing may be fetched from elsewhere.

    python tools/docs_links.py [FOLDER]    check build/site; list the links that lead out; exit 1 where one is dead

A page is parsed, never searched for patterns.  Links out are listed, not fetched.  Links to the pages of
JupyterLite, in lite/, are checked; those in them are not ours, and they do fetch Pyodide.

Source: HTML Living Standard, 4.6 (links) and 4.2.4 (what a page fetches by itself).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import click

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}  # by a page itself
OUTWARD = ("http", "https", "mailto")
FOREIGN = "lite"  # the folder of JupyterLite
KEPT = ("canonical", "prev", "next")  # relations of <link> that name a page and fetch nothing


class Link(NamedTuple):
    """A link of a page; fetched: the page loads it by itself."""

    page: str
    target: str
    fetched: bool


class Page(HTMLParser):
    """What a page names: its anchors, and its links with whether it fetches them."""

    def __init__(self, path: Path, name: str) -> None:
        """Read a file; name: what its links call it."""
        super().__init__()
        self.name = name
        self.anchors: set[str] = set()
        self.links: list[Link] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag with its attributes."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        key = FETCHED.get(tag, "href" if tag == "a" else "")
        if key in given:
            fetched = tag != "a" and given.get("rel", "") not in KEPT
            self.links.append(Link(self.name, given[key], fetched))


def read(folder: Path) -> dict[str, Page]:
    """Every page of a site that is ours, by its path."""
    paths = sorted(path.relative_to(folder) for path in folder.glob("**/*.html"))
    names = [path.as_posix() for path in paths if path.parts[0] != FOREIGN]
    return {name: Page(folder / name, name) for name in names}


def dead(folder: Path, pages: dict[str, Page]) -> Iterator[str]:
    """What is wrong with the links of a site, one line each."""
    for page in pages.values():
        for link in page.links:
            trouble = _trouble(folder, pages, link)
            if trouble:
                yield f"{link.page}: {link.target}: {trouble}"


def _trouble(folder: Path, pages: dict[str, Page], link: Link) -> str:
    """Why a link is dead; "" where it is not."""
    parts = urlsplit(link.target)
    if parts.scheme == "data" or (parts.scheme in OUTWARD and not link.fetched):
        return ""
    if parts.scheme or parts.netloc:
        return "is fetched from elsewhere"
    start = folder if parts.path.startswith("/") else (folder / link.page).parent  # of 404.html
    where = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else folder / link.page
    where = where / "index.html" if where.is_dir() else where
    if not where.is_file():
        return "is no file"
    page = pages.get(where.relative_to(folder).as_posix())
    anchor = unquote(parts.fragment)
    # The explorer keeps its state there: `f=e4m3`.
    if page and anchor and "=" not in anchor and anchor not in page.anchors:
        return "has no such anchor"
    return ""


def leading_out(pages: dict[str, Page]) -> list[str]:
    """The addresses outside that a reader can follow, sorted."""
    targets = {link.target for page in pages.values() for link in page.links if not link.fetched}
    return sorted(target for target in targets if urlsplit(target).netloc)


@click.command()
@click.argument("folder", default=SITE, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Check the links of the site in FOLDER."""
    pages = read(folder.resolve())
    wrong = list(dead(folder.resolve(), pages))
    out = leading_out(pages)
    print("\n".join(wrong or out))
    print(f"{len(pages)} pages, {len(wrong)} dead links; {len(out)} links lead out and were not tried")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
