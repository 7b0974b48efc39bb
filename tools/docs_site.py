"""The documentation site: what MkDocs cannot find in docs/ is made here, as hooks.

    docs/*.md                       written by hand; a comment stands for what is made or read elsewhere:
        <!-- README.md: Title -->   the section of that file with this title; without one, what comes before the first
        <!-- made: name -->         a table, see MADE
        > In a clone: ...           a line for who reads the file itself; the site leaves it out
        ](../path)                  a link to a file of the repository, which the site has at `path`, or has the page
                                    INSTEAD that is made from it
    PAGES                           files of the repository, at their own paths, so that their links hold
    tutorials/<name>.md             a notebook, with outputs where `make notebooks` has run it
    formats/*.md                    the catalogue, see docs_formats
    kernels/figures.md              every run of the kernels' benchmark, see docs_figures
    cli.md, api/*.md                the help texts of click; the docstrings, by mkdocstrings

A file of the repository that a page links to is copied to the same path.  Nothing needs a network.
build/lite, which tools/docs_lite.py makes, becomes lite/; without it no page has a link to it.

Source: MkDocs 1.6, hooks and File.generated.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import nbformat
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

import docs_figures
import docs_formats
import docs_plan
import feather_ref as fr
from docs_docstrings import markdown
from feather_ref.cli import SECTIONS, cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "data/golden/README.md")
FOLDERS = ("examples", "kernels", "tutorials")  # of which every Markdown file is a page
INSTEAD = {  # a link to the one leads to the other
    "README.md": "index.md",
    "feather_ref/__init__.py": "api/index.md",
    "feather_ref/cli.py": "cli.md",
    "feather_ref/formats.py": "formats/index.md",
}
RAN = ROOT / "build" / "notebooks"
LITE = ROOT / "build" / "lite"
BACK = "<!-- way back -->"
PRIVATE = ("cli", "__main__")  # modules without an API of their own
MADE = {
    "block formats": docs_formats.block_formats,
    "scale rules": docs_formats.scale_rules,
    "plan picture": docs_plan.plan_picture,
    "profiles": docs_formats.profiles,
}
INCLUDE = re.compile(r"^<!-- (\S+):(?: (.+))? -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)\s#]+)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
CLONE = re.compile(r"^> In a clone: .*\n\n", re.MULTILINE)
UP = re.compile(r"(\]\()\.\./([^)#]+)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


# --- the hooks of MkDocs ----------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Put the pages of a folder where the menu says `folder/`."""
    folders = {
        "api/": [{"All names": "api/index.md"}, *({name.partition(".")[2]: f"api/{name}.md"} for name in modules())],
        "formats/": [{"All formats": "formats/index.md"}, *({name: f"formats/{name}.md"} for name in fr.FORMATS)],
        "tutorials/": [
            {"All tutorials": "tutorials/README.md"},
            *(f"tutorials/{path.stem}.md" for path in notebooks()),
        ],
    }
    config.nav = [
        {title: folders.get(where, where) if isinstance(where, str) else where}
        for entry in config.nav
        for title, where in entry.items()
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/, and the files that they link to."""
    linked: set[str] = set()
    for path, text in pages():
        body, wanted = resolved(path, text)
        linked |= wanted
        files.append(File.generated(config, path, content=body))
    for path in sorted(linked - {each.src_uri for each in files}):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, picture in notebook_pictures():
        files.append(File.generated(config, path, content=picture))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Put in what the comments of a page by hand stand for."""
    if page.file.generated_by:
        return text
    return INCLUDE.sub(lambda match: included(match[1], match[2] or ""), as_served(text))


def on_post_build(config: Any) -> None:
    """Put JupyterLite beside the pages, and give the explorer a way back to them."""
    site = Path(config.site_dir)
    if LITE.is_dir():
        shutil.copytree(LITE, site / "lite", dirs_exist_ok=True)
    explorer = (site / "explorer.html").read_text(encoding="utf-8")
    if BACK not in explorer:
        raise ValueError(f"docs/explorer.html has no {BACK}: run feather-ref explore --force -o docs/explorer.html")
    link = '<p><a href="index.html">feather-ref documentation</a></p>'  # alone, the page has nowhere to go back to
    (site / "explorer.html").write_text(explorer.replace(BACK, link), encoding="utf-8")


def as_served(text: str) -> str:
    """A page of docs/ without what is for the reader of a clone alone, and its links as the site has them.

    >>> as_served("# A\\n\\n> In a clone: see B.\\n\\n[C](../examples/c/README.md), [D](../feather_ref/cli.py)")
    '# A\\n\\n[C](examples/c/README.md), [D](cli.md)'
    """
    return UP.sub(lambda match: match[1] + INSTEAD.get(match[2], match[2]), CLONE.sub("", text))


# --- what is in the repository ----------------------------------------------------------------


def included(source: str, name: str) -> str:
    """What a comment stands for.

    Raises ValueError for an unknown table, a missing file or a section that is not there.
    """
    if source == "made":
        if name not in MADE:
            raise ValueError(f"no table {name!r}; there are {', '.join(MADE)}")
        return MADE[name]()
    return section((ROOT / source).read_text(encoding="utf-8"), name, source)


def section(text: str, title: str, source: str = "text") -> str:
    """The section with a title, without it; for "" what stands between the heading of the page and the first section.

    >>> section("# A\\n\\nfirst\\n\\n## B\\n\\nsecond\\n", "B"), section("# A\\n\\nfirst\\n\\n## B\\n", "")
    ('second', 'first')
    """
    hidden = FENCE.sub(lambda match: match[0].replace("\n#", "\n\0#"), text)  # a comment of a shell is no heading
    parts = re.split(r"^##? (.+)\n", hidden, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    if title and title not in found:
        raise ValueError(f"{source} has no section {title!r}; it has {', '.join(found)}")
    return (found[title] if title else parts[2]).replace("\0", "").strip()


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page that is made."""
    for path in repository_pages():
        yield path, (ROOT / path).read_text(encoding="utf-8")
    for notebook in notebooks():
        yield f"tutorials/{notebook.stem}.md", notebook_page(notebook)[0]
    yield "tutorials/solutions/README.md", solutions_page()
    yield "formats/index.md", docs_formats.index_page()
    for row in fr.FORMATS.values():
        yield f"formats/{row.name}.md", docs_formats.format_page(row)
    yield "kernels/figures.md", docs_figures.figures_page()
    yield "cli.md", cli_page()
    yield "api/index.md", api_index()
    for name in (*modules(), "feather_kernels"):  # whose names stand in one module
        yield f"api/{name}.md", f"# {name}\n\n::: {name}\n"


def repository_pages() -> list[str]:
    """Paths of the files that are pages as they stand."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).glob("**/*.md") if "build" not in path.parts)
    return sorted({*PAGES, *(path.relative_to(ROOT).as_posix() for path in found)})


def resolved(page: str, text: str) -> tuple[str, set[str]]:
    """A page with its links into the repository set right, and the files among their targets that are not pages.

    >>> resolved("examples/README.md", "[C](c/), [us](../README.md), [free](../LICENSE); `a[0](b)`")
    ('[C](c/README.md), [us](../index.md), [free](../LICENSE); `a[0](b)`', {'LICENSE'})
    """
    linked: set[str] = set()
    here = posixpath.dirname(page)

    def replace(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(here, match[2]))
        if path.startswith("docs/") or path in INSTEAD:
            path = INSTEAD.get(path, path).removeprefix("docs/")  # the site's own
        elif (ROOT / path).is_dir():
            path += "/README.md"
        elif path.endswith(".ipynb") and Path(path).stem != Path(page).stem:  # its own is for download
            path = path.removesuffix(".ipynb") + ".md"
        elif (ROOT / path).is_file() and not path.endswith(".md"):
            linked.add(path)
        return match[1] + posixpath.relpath(path, here or ".")

    parts = CODE.split(text)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts), linked


# --- notebooks --------------------------------------------------------------------------------


def notebooks() -> list[Path]:
    """The notebooks, in order."""
    return sorted((ROOT / "tutorials").glob("[0-9][0-9]_*.ipynb"))


@functools.cache
def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by name; with outputs where it has been run as it stands."""
    notebook = nbformat.read(path, as_version=4)
    ran = RAN / path.name
    outputs = nbformat.read(ran, as_version=4) if ran.is_file() else None
    fresh = outputs is not None and sources(outputs) == sources(notebook)
    key = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    body, resources = MarkdownExporter().from_notebook_node(outputs if fresh else notebook, resources=key)
    title, _, rest = body.strip().partition("\n")
    note = f"[Download this notebook]({path.name})" + ("." if fresh else "; here it stands without its outputs.")
    return f"{title}\n\n{lite_link(path)}{note}\n{rest}\n", dict(resources["outputs"])


def lite_link(path: Path) -> str:
    """The button that opens a notebook in JupyterLite, where that has it; in HTML, for MkDocs knows no such page."""
    if not (LITE / "files" / path.name).is_file():
        return ""
    where = f"../lite/notebooks/index.html?path={path.name}"
    return f'<a class="md-button" href="{where}">Run it in your browser</a>\n\n'


def sources(notebook: Any) -> list[str]:
    """What a notebook runs and says, without what came of it."""
    return [cell.source for cell in notebook.cells]


def notebook_pictures() -> Iterator[tuple[str, bytes]]:
    """Path and content of every picture in a notebook's page."""
    for notebook in notebooks():
        for name, picture in notebook_page(notebook)[1].items():
            yield f"tutorials/{name}", picture


def solutions_page() -> str:
    """The solutions of all exercises, one after the other."""
    files = sorted((ROOT / "tutorials" / "solutions").glob("*.py"))
    parts = [f"## {file.stem}\n\n```python\n{file.read_text(encoding='utf-8').strip()}\n```" for file in files]
    return "\n\n".join(["# Solutions", "Try [the exercise](../README.md) first.", *parts]) + "\n"


# --- reference --------------------------------------------------------------------------------


def cli_page() -> str:
    """The help of every command, as it prints it."""
    start = "# Command line\n\n`feather-ref COMMAND --help` prints what stands here."
    parts = [start, _help(cli, "feather-ref")]
    for section_name, names in SECTIONS:
        parts.append(f"## {section_name}")
        parts += [f"### {name}\n\n{_help(cli.commands[name], f'feather-ref {name}')}" for name in names]
    return "\n\n".join(parts) + "\n"


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=88, max_content_width=88)
    return f"```text\n{command.get_help(context)}\n```"


@functools.cache
def modules() -> list[str]:
    """Every public module of the package, but its command line."""
    found = (name for _, name, _ in pkgutil.iter_modules(fr.__path__) if not name.startswith("_"))
    return [f"feather_ref.{name}" for name in found if name not in PRIVATE]


def api_index() -> str:
    """What `import feather_ref` brings, each with the first sentence of its docstring, and the modules."""
    shown = [importlib.import_module(name) for name in modules()]
    elsewhere = {name for module in shown for name in getattr(module, "__all__", ())}
    own = [name for name in fr.__all__ if getattr(getattr(fr, name), "__module__", "").startswith("feather_ref._")]
    options = "".join(f"        - {name}\n" for name in own if name not in elsewhere)
    listed = [(f"[`{module.__name__}`]({module.__name__}.md)", _sentence(module)) for module in shown]
    return (
        "# API\n\n`import feather_ref as fr` loads NumPy alone, and brings:\n\n"
        f"{docs_formats.table(('name', 'what'), map(_brought, fr.__all__))}\n\n"
        "`fr.pack_<format>` and `fr.unpack_<format>` are there for each format, as `make_packer` and `make_unpacker` "
        f"make them.\n\n## Modules\n\n{docs_formats.table(('module', 'what'), listed)}\n\n## Names without a module\n\n"
        f"::: feather_ref\n    options:\n      show_root_heading: false\n      show_docstring_description: false\n"
        f"      heading_level: 2\n      members:\n{options}"
    )


def _brought(name: str) -> tuple[str, str]:
    """A name with its link and what it is; of a constant what it holds."""
    thing = getattr(fr, name)
    if isinstance(thing, tuple):
        return f"`{name}`", ", ".join(map(docs_formats.code, thing))
    if isinstance(thing, Mapping):
        return f"`{name}`", f"{len(thing)} rows by name: {', '.join(map(docs_formats.code, list(thing)[:3]))}, ..."
    module = thing.__module__ if thing.__module__ in modules() else "feather_ref"
    return f"[`{name}`][{module}.{name}]", _sentence(thing)


def _sentence(thing: object) -> str:
    """The first sentence of a docstring, as Markdown."""
    first = " ".join((thing.__doc__ or "").split("\n\n")[0].split())
    return markdown(first.split(". ")[0].rstrip(".:"))
