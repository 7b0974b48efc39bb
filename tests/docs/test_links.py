"""Links between the files of the repository, as somebody follows them who has a clone and no site."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("docs", "data/golden", "examples", "kernels", "tests", "tutorials")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]+)?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).glob("**/*.md"))]
    return sorted(path for path in found if "build" not in path.relative_to(ROOT).parts)


def dead(page: Path) -> Iterator[str]:
    """Links that lead to no file, or to no heading of one."""
    for path, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield path
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield path + anchor


def anchors(page: Path) -> set[str]:
    """What GitHub and MkDocs call the headings of a page."""
    text = CODE.sub(lambda match: "" if "\n" in match[0] else match[0].strip("`"), page.read_text(encoding="utf-8"))
    return {"#" + re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(text)}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_clone_leads_somewhere(page: Path) -> None:
    assert list(dead(page)) == []


def test_dead_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# A b\n[x](b.md) `[y](c.md)` [z](https://x.org) [u](#a-b) [v](#c)", encoding="utf-8"
    )
    assert list(dead(tmp_path / "a.md")) == ["b.md", "#c"]


def test_no_tracked_page_is_left_out() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("no clone: there is no git here")
    assert set(tracked.stdout.split()) <= {page.relative_to(ROOT).as_posix() for page in pages()}
