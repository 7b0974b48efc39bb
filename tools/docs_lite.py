"""JupyterLite: the tutorials that need NumPy and matplotlib alone, to be run in the reader's browser.

    python tools/docs_lite.py    # writes build/lite, which `mkdocs build` puts into the site

    build/lite_parts/contents/    the notebooks, with links to each other and to nothing else
    build/lite_parts/wheels/      the wheel of this tree, which `%pip install` finds in the page's own index
    build/lite/                   what readers get: the page of Jupyter, the notebooks, the wheel

The build needs no network.  The page does: it fetches Python for WebAssembly (Pyodide, with NumPy and
matplotlib) from cdn.jsdelivr.net, and two small pure packages that rich asks for from PyPI.

Source: JupyterLite 0.8, configuration and `jupyter lite check`; jupyterlite-pyodide-kernel 0.8.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "build" / "lite_parts"
LITE = ROOT / "build" / "lite"
NOTEBOOKS = "0[1-6]_*.ipynb"  # 07 needs greenlet, which Pyodide has not
LINK = re.compile(r"\[([^][\n]+)\]\((\d\d_\w+\.ipynb)\)")


def notebooks() -> list[Path]:
    """The notebooks that a browser can run."""
    return sorted((ROOT / "tutorials").glob(NOTEBOOKS))


def contents(text: str, names: set[str]) -> str:
    """A notebook whose links lead to the notebooks with these names; of another link its words stay.

    >>> contents("[05 Blocks](05_blocks.ipynb), [07 A kernel](07_kernel.ipynb)", {"05_blocks.ipynb"})
    '[05 Blocks](05_blocks.ipynb), 07 A kernel'
    """
    return LINK.sub(lambda match: match[0] if match[2] in names else match[1], text)


def settings(wheel: str) -> dict[str, object]:
    """What jupyter_lite_config.json says; wheel: its path from that file."""
    return {
        "LiteBuildConfig": {
            "contents": ["contents"],
            "output_dir": str(LITE),
            "apps": ["notebooks", "tree"],  # a page for each notebook, and the list
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
            "no_libarchive": True,
        },
        "PipliteAddon": {"piplite_urls": [wheel]},
    }


def page() -> dict[str, object]:
    """What jupyter-lite.json says: a name, and where the address of the folder leads."""
    looks = {"appName": "feather-ref", "appUrl": "./tree", "faviconUrl": "./notebooks/favicon.ico"}
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": looks}


def prepare() -> None:
    """Fill the folder of the parts."""
    shutil.rmtree(PARTS, ignore_errors=True)
    (PARTS / "contents").mkdir(parents=True)
    names = {path.name for path in notebooks()}
    for path in notebooks():
        text = contents(path.read_text(encoding="utf-8"), names)
        (PARTS / "contents" / path.name).write_text(text, encoding="utf-8")
    run(ROOT, "build", "--wheel", "--no-isolation", "--outdir", str(PARTS / "wheels"))
    (wheel,) = (PARTS / "wheels").glob("*-py3-none-any.whl")  # a wheel for one machine would not run in a browser
    for name, what in (("jupyter_lite_config", settings(f"wheels/{wheel.name}")), ("jupyter-lite", page())):
        (PARTS / f"{name}.json").write_text(json.dumps(what), encoding="utf-8")


def run(folder: Path, module: str, *arguments: str) -> None:
    """Run a Python module in a folder; what it prints is shown where it fails, and the program ends."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{module} {' '.join(arguments)}: exit code {done.returncode}")


def main() -> None:
    """Build and check."""
    prepare()
    shutil.rmtree(LITE, ignore_errors=True)
    for step in ("build", "check"):
        run(PARTS, "jupyterlite_core", step)
    files = [path for path in LITE.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{LITE}: {len(notebooks())} notebooks, {len(files)} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
