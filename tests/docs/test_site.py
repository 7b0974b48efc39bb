"""The documentation site: it builds without a warning, its links hold, it fetches nothing, and a browser shows it."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import feather_ref as fr
from feather_ref import explorer
from feather_ref.cli import cli

TOOLS = ("docs_docstrings", "docs_figures", "docs_formats", "docs_links", "docs_site")
for _name in ("material", "mkdocstrings_handlers.python", "nbconvert"):
    pytest.importorskip(_name, reason="needs the extra `docs`")

docs_docstrings, docs_figures, docs_formats, docs_links, docs_site = map(importlib.import_module, TOOLS)

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 300  # that a build may take
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
LOOKED_AT = (
    "index.html", "policies.html", "blocks.html", "judge.html", "cli.html", "formats/index.html", "formats/e4m3.html",
    "formats/fp32.html", "tutorials/02_rounding.html", "kernels/figures.html", "api/index.html",
    "api/feather_ref.codec.html",
)  # fmt: skip

pytestmark = pytest.mark.slow  # a build of the site, and a browser

# By hand, from OFP8, MX, IEEE 754 and the paper on QLoRA: what a page must say.
SAID = {
    "e4m3": ("4 exponent, 3 mantissa", "7E = 448", "08 = 0.015625", "01 = 0.001953125", "OFP8", "F8_E4M3"),
    "e5m2": ("5 exponent, 2 mantissa", "7B = 57344", "7C</code>, <code>FC", "nonsaturating", "7C = Inf"),
    "e2m1": ("2 exponent, 1 mantissa", "7 = 6", "All 16 values", "<code>0 11 1</code></td><td><code>6</code>"),
    "fp16": ("5 exponent, 10 mantissa", "7BFF = 65504", "binary16"),
    "nf4": ("a table of 16 values", "arXiv:2305.14314", "F = 1"),
    "int8": ("signed integer", "7F = 127", "80 = -128"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once, also where several workers want it; a warning of MkDocs is a failure."""
    mine = tmp_path_factory.getbasetemp()
    root = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
    folder, done = root / "site", root / "site.json"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(SECONDS * 10):
            if done.exists():
                break
            time.sleep(0.1)
    else:
        written = root / "site.part"
        written.write_text(json.dumps(build(folder)), encoding="utf-8")
        written.rename(done)
    status, said = json.loads(done.read_text(encoding="utf-8"))
    assert (status, "WARNING" in said) == (0, False), said
    return folder


def build(folder: Path) -> tuple[int, str]:
    """Exit code and messages of MkDocs."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Any]:
    return docs_links.read(site)


def text(site: Path, name: str) -> str:
    return (site / name).read_text(encoding="utf-8")


# --- what is on it ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAID)
def test_a_format_says_what_its_standard_does(site: Path, name: str) -> None:
    shown = text(site, f"formats/{name}.html")
    assert [wanted for wanted in SAID[name] if wanted not in shown] == []


@pytest.mark.parametrize("name", fr.FORMATS)
def test_every_format_has_pictures_policies_and_a_place_in_the_explorer(site: Path, name: str) -> None:
    row, shown = fr.FORMATS[name], text(site, f"formats/{name}.html")
    assert shown.count('<div class="picture"><svg role="img" aria-label="') >= 2
    assert all(f"<code>{alias}</code>" in shown for alias in row.aliases)
    assert ("<td>saturate" in shown) == (row.kind == "float")
    known = {known.name for _, known in explorer.formats()}
    assert (f'href="../explorer.html#f={name}"' in shown) == (row.bits <= 8) == (name in known)
    assert (f"All {1 << row.bits} values" in shown) == (row.bits <= 8)
    assert f'<a href="{name}.html">' in text(site, "formats/index.html")


@pytest.mark.parametrize("name", fr.FORMATS)
def test_the_lines_of_use_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(docs_formats.use(fr.FORMATS[name]).removeprefix("```python").removesuffix("```"), names)
    assert capsys.readouterr().out == f"{fr.decode(names['codes'], name)}\n"
    assert (fr.unpack(names["words"], name, 3) == fr.decode(names["codes"], name)).all()


def test_pictures_have_the_ink_of_the_text_and_no_style_for_the_whole_page(site: Path) -> None:
    shown = text(site, "formats/e4m3.html")
    assert "currentColor" in shown
    assert "#1a1a1a" not in shown
    assert "<style type" not in shown


@pytest.mark.parametrize("name", [name for name in fr.__all__ if not name.isupper()])
def test_every_name_has_its_place_in_the_reference(pages: dict[str, Any], name: str) -> None:
    assert any(anchor.endswith(f".{name}") for page in pages.values() for anchor in page.anchors)


def test_no_doctest_is_taken_for_a_quotation(site: Path) -> None:
    """Markdown reads >>> as three of them."""
    wrong = [path.name for path in site.glob("api/*.html") if "<blockquote>" in path.read_text(encoding="utf-8")]
    assert wrong == []


def test_every_command_has_its_help(site: Path) -> None:
    shown = text(site, "cli.html")
    assert [name for name in cli.commands if f"Usage: feather-ref {name} " not in shown] == []


def test_notebooks_are_pages_and_downloads(site: Path) -> None:
    for notebook in docs_site.notebooks():
        assert f'href="{notebook.name}"' in text(site, f"tutorials/{notebook.stem}.html")
        assert (site / "tutorials" / notebook.name).read_bytes() == notebook.read_bytes()


def test_the_home_page_is_the_readme(site: Path) -> None:
    assert "0x30403444" in text(site, "index.html")


def test_the_explorer_of_the_site_leads_back_and_no_other_does(site: Path, pages: dict[str, Any]) -> None:
    assert [link.target for link in pages["explorer.html"].links if not link.fetched] == ["index.html"]
    assert "<a href" not in (ROOT / "docs" / "explorer.html").read_text(encoding="utf-8").split("<main>")[0]


def test_a_new_run_is_a_section_whatever_it_measured(tmp_path: Path) -> None:
    rows = [
        {"work": "read", "us": 10.0, "gbs": 1000.0},
        {"work": "gemv", "format": "e4m3", "n": 8, "k": 4, "right": True, "us": 1.25, "gbs": 900.0},
        {"work": "gemv", "format": "e5m2", "n": 8, "k": 4, "right": False, "us": None, "gbs": 1800.5},
        {"work": "juggle", "balls": 3},
    ]
    for name, quick in (("a", True), ("b", False)):
        run = {"machine": {"gpu": f"Card {name}", "versions": {"numba": "1"}}, "quick": quick, "rows": rows}
        (tmp_path / f"{name}.json").write_text(json.dumps(run), encoding="utf-8")
    (tmp_path / "c.jsonl").write_text('{"kernel": "k", "spills": 0}\n', encoding="utf-8")
    shown = docs_figures.figures_page(tmp_path)
    assert [line for line in shown.splitlines() if line.startswith("## ")] == [
        "## Card b: b.json", "## Card a: a.json (a quick run)", "## Compiled without a GPU: c",
    ]  # fmt: skip
    for line in (
        "| gemv | e4m3 | 8 | 4 | yes | 1.2 | 900.0 |",
        "| gemv | e5m2 | 8 | 4 | NO |  | 1,800 |",
        "| juggle | 3 |",
    ):
        assert shown.count(line) == 2
    heads = ["| work | us | GB/s |", "| work | format | n | k | compared | us | GB/s |", "| work | balls |"]
    assert [line for line in shown.splitlines() if line.startswith("| work")] == heads * 2
    assert "| kernel | spills |\n|---|---|\n| k | 0 |" in shown
    assert shown.count("<svg") == 2


def test_every_run_of_the_repository_is_on_the_site(site: Path) -> None:
    shown = text(site, "kernels/figures.html")
    runs = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in docs_figures.RESULTS.glob("*.json")}
    assert runs
    for name, run in runs.items():
        assert f": {name}" in shown
        assert all(f"<td>{docs_figures.cell(row['us'])}</td>" in shown for row in run["rows"] if row.get("us"))


# --- its links --------------------------------------------------------------------------------


def test_no_link_is_dead_and_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[str, Any]) -> None:
    assert len(pages) > len(fr.FORMATS)
    assert list(docs_links.dead(site, pages)) == []


def test_links_out_are_safe_addresses(pages: dict[str, Any]) -> None:
    assert [target for target in docs_links.leading_out(pages) if not target.startswith("https://")] == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<p id="here"><a href="../a.html">a</a>', encoding="utf-8")
    good = '<a href="sub/b.html#here"></a><a href="https://x.org"></a><img src="data:,"><a href="#me" id="me"></a>'
    bad = ("sub/c.html", "sub/b.html#there", "#nowhere")
    links = "".join(f'<a href="{target}"></a>' for target in bad)
    fetched = '<script src="https://cdn.org/x.js"></script><link rel="stylesheet" href="//fonts.org/x.css">'
    (tmp_path / "a.html").write_text(good + links + fetched, encoding="utf-8")
    found = [line.split(": ")[1] for line in docs_links.dead(tmp_path, docs_links.read(tmp_path))]
    assert found == [*bad, "https://cdn.org/x.js", "//fonts.org/x.css"]


# --- how it is made ---------------------------------------------------------------------------


@pytest.mark.parametrize("tool", [docs_docstrings, docs_figures, docs_formats, docs_links, docs_site], ids=TOOLS)
def test_doctests_of_the_tools(tool: Any) -> None:
    assert doctest.testmod(tool).failed == 0


def test_a_docstring_becomes_markdown() -> None:
    given = "A [b] of 2**<n>::\n\n    x  y\n\n>>> f(1)  # doctest: +SKIP\n<BLANKLINE>\n\n=== ===\n`*` `_`\n=== ==="
    wanted = (
        "A \\[b] of 2\\*\\*&lt;n>:\n\n    x  y\n\n```pycon\n>>> f(1)\n\n```\n\n```text\n=== ===\n`*` `_`\n=== ===\n```"
    )
    assert docs_docstrings.markdown(given) == wanted


@pytest.mark.parametrize(("source", "name"), [("README.md", "No such section"), ("made", "no such table")])
def test_a_comment_without_a_meaning_is_an_error(source: str, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        docs_site.included(source, name)


def test_a_heading_in_code_is_no_section() -> None:
    page = "# A\n\n## B\n\n```bash\n# no heading\n```\n\n## C\n"
    assert docs_site.section(page, "B") == "```bash\n# no heading\n```"


# --- in a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs chromium and chromedriver")
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    driver.base = f"http://127.0.0.1:{server.server_port}"
    yield driver
    driver.quit()
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """A server that does not talk."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_phone_shows_it_without_sideways_scrolling_or_complaints(browser: Any, name: str) -> None:
    metrics = {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(f"{browser.base}/{name}")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 375
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [address for address in fetched if not address.startswith((browser.base, "data:"))] == []
    assert browser.get_log("browser") == []


def test_the_search_finds_a_format(browser: Any) -> None:
    wait = importlib.import_module("selenium.webdriver.support.wait").WebDriverWait(browser, 30)
    browser.get(f"{browser.base}/index.html?q=e5m2fnuz")
    found = "return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.pathname)"
    wait.until(lambda page: "/formats/e5m2fnuz.html" in page.execute_script(found))
