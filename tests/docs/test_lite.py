"""The tutorials in a browser: what JupyterLite is given, the button, and a build with the extra `lite`."""

from __future__ import annotations

import doctest
import importlib
import json
import shutil
from pathlib import Path

import pytest

import docs_lite
import feather_ref

NAMES = [path.name for path in docs_lite.notebooks()]


def test_doctests_of_the_tool() -> None:
    assert doctest.testmod(docs_lite).failed == 0


@pytest.mark.parametrize("path", docs_lite.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_leads_to_what_is_there(path: Path) -> None:
    text = docs_lite.contents(path.read_text(encoding="utf-8"), set(NAMES))
    assert {name for _, name in docs_lite.LINK.findall(text)} <= set(NAMES)
    assert json.loads(text).keys() == json.loads(path.read_text(encoding="utf-8")).keys()


def test_the_button_is_there_where_the_page_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbconvert", reason="needs the extra `docs`")
    docs_links, docs_site = map(importlib.import_module, ("docs_links", "docs_site"))
    monkeypatch.setattr(docs_site, "LITE", tmp_path / "lite")
    assert docs_site.lite_link(docs_lite.notebooks()[0]) == ""
    for name in ("files/01_one_byte.ipynb", "notebooks/index.html"):
        (tmp_path / "lite" / name).parent.mkdir(parents=True)
        (tmp_path / "lite" / name).write_text('<a href="no.html">', encoding="utf-8")
    (tmp_path / "tutorials").mkdir()
    page = tmp_path / "tutorials" / "01.html"
    page.write_text(docs_site.lite_link(docs_lite.notebooks()[0]), encoding="utf-8")
    pages = docs_links.read(tmp_path)
    assert [link.target for link in pages["tutorials/01.html"].links] == [
        "../lite/notebooks/index.html?path=01_one_byte.ipynb"
    ]
    assert list(docs_links.dead(tmp_path, pages)) == []
    shutil.rmtree(tmp_path / "lite")
    assert len(list(docs_links.dead(tmp_path, docs_links.read(tmp_path)))) == 1


@pytest.mark.slow
def test_it_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("build", "hatchling", "jupyter_server", "jupyterlite_pyodide_kernel"):
        pytest.importorskip(module, reason="needs the extra `lite`")
    monkeypatch.setattr(docs_lite, "PARTS", tmp_path / "parts")
    monkeypatch.setattr(docs_lite, "LITE", tmp_path / "lite")
    docs_lite.main()
    listed = json.loads((tmp_path / "lite" / "api" / "contents" / "all.json").read_text(encoding="utf-8"))
    assert sorted(each["name"] for each in listed["content"]) == NAMES
    index = json.loads((tmp_path / "lite" / "pypi" / "all.json").read_text(encoding="utf-8"))
    (wheel,) = index["feather-ref"]["releases"][feather_ref.__version__]
    assert (tmp_path / "lite" / "pypi" / wheel["filename"]).stat().st_size == wheel["size"]
    assert wheel["filename"].endswith("-py3-none-any.whl")
    assert not list((tmp_path / "lite").rglob("*.map"))
