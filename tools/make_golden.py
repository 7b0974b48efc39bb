"""Write data/golden from the exact oracle, or check that it is what this tool writes.

    python tools/make_golden.py                 write
    python tools/make_golden.py --check         compare, change nothing (all but the digests)
    python tools/make_golden.py --digests       ask the oracle for one seeded chunk of each digest
    python tools/make_golden.py --prove         send whole domains through the codec as well
    python tools/make_golden.py --archive FILE  pack a release

Expected bits come from feather_ref.oracle alone; --prove compares the codec's integer algorithm
with them.  A digest that is there is kept, since all of them take half an hour: delete the file to
have it made again.

Source: the layout is described in data/golden/README.md.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import click
from rich.progress import track

from feather_ref import golden
from golden_archive import pack
from golden_blocks import block_vectors
from golden_contents import content
from golden_digests import chunks, wrong_chunks
from golden_manifest import AnyVector, manifest_json, manifest_rows, manifest_tsv, share, sums
from golden_prove import provable, prove, write_log
from golden_vectors import vectors

ROOT = Path(__file__).parent.parent / "data" / "golden"
Files = dict[str, bytes]  # path -> contents


def make(wanted: Collection[AnyVector], workers: int = 1) -> Iterator[tuple[str, bytes]]:
    """(stored id, contents) of every file behind the vectors, each once, the longest first."""
    stored = {vector.stored: vector for vector in wanted}
    order = sorted(stored, key=lambda i: (stored[i].shape != "dig", -stored[i].row.bits, stored[i].row.name, i))
    found = [stored[i] for i in order]
    if workers == 1:
        yield from zip(order, map(content, found), strict=True)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        wide = sum(vector.row.bits > 12 or vector.shape == "dig" for vector in found)
        long, short = pool.map(content, found[:wide]), pool.map(content, found[wide:], chunksize=16)
        yield from zip(order[:wide], long, strict=True)
        yield from zip(order[wide:], short, strict=True)


def kept(found: Collection[AnyVector], again: Callable[[AnyVector], bool]) -> dict[str, bytes]:
    """Contents of the files of the tree, by stored id, for the vectors that need not be made again."""
    try:
        rows = {**golden.manifest(ROOT), **golden.block_manifest(ROOT)}
    except FileNotFoundError:
        rows = {}
    asked = {vector.stored for vector in found if again(vector)}
    paths = {v.stored: ROOT / (rows[v.id]["path"] if v.id in rows else v.own_path) for v in found}
    return {i: path.read_bytes() for i, path in paths.items() if i not in asked and path.is_file()}


def build(again: Callable[[AnyVector], bool], workers: int = 1) -> Files:
    """Every file but those written by hand: made where `again` says so or it is missing, else as it is."""
    # blocks first: their elements have the file of a conversion, which makes it
    found: list[AnyVector] = [*block_vectors(), *vectors()]
    contents = kept(found, again)
    missing = [vector for vector in found if vector.stored not in contents]
    total = len({vector.stored for vector in missing})
    made = track(make(missing, workers), description="oracle", total=total, transient=True)
    contents |= dict(made)
    paths = share(found, contents)
    files = {paths[vector.id]: contents[vector.stored] for vector in found}
    rows = manifest_rows(found, paths, files)
    files |= {"manifest.json": manifest_json(rows), "manifest.tsv": manifest_tsv(rows)}
    summed = files | {name: (ROOT / name).read_bytes() for name in golden.SUMMED if name not in files}
    return files | {"SHA256SUMS": sums(summed)}


def write(files: Files) -> None:
    """Put the files into the tree; vectors that are no longer there go."""
    for name, data in files.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
    for path in sorted(ROOT.rglob("*"), reverse=True):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and "/" in name and name not in files:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def differences(files: Files) -> list[str]:
    """Files of the tree that are not what they should be, and files too many."""
    wrong = [name for name, data in files.items() if not same(ROOT / name, data)]
    return sorted(wrong) + [problem for problem in golden.verify(ROOT) if problem.endswith("not listed")]


def same(path: Path, data: bytes) -> bool:
    """Whether a file holds these bytes."""
    return path.is_file() and path.read_bytes() == data


def digest_problems(only: str, seed: int, every: bool) -> list[str]:
    """Chunks of the digests that the oracle answers otherwise: one seeded chunk of each, or all."""
    draw = random.Random(seed)
    found = [vector for vector in vectors() if vector.shape == "dig" and fnmatchcase(vector.id, only)]
    wrong = []
    for vector in track(found, description="digests", transient=True):
        lines = (ROOT / vector.own_path).read_text(encoding="ascii").splitlines(keepends=True)
        chosen = range(chunks(vector)) if every else [draw.randrange(chunks(vector))]
        wrong += wrong_chunks(vector, lines, chosen)
    return wrong


def prove_all(only: str, log: Path | None, workers: int) -> list[str]:
    """Whole domains through the codec; the log, and what differs."""
    found = [vector for vector in provable(vectors()) if fnmatchcase(vector.id, only)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        answers = pool.map(partial(prove, folder=ROOT), found)
        results = list(track(answers, description="codec", total=len(found), transient=True))
    if log:
        write_log(log, results)
    return [f"{result['id']}: {result['mismatches']} differ" for result in results if result["mismatches"]]


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--check", is_flag=True, help="Compare with the tree, all but the digests; change nothing.")
@click.option("--digests", is_flag=True, help="Ask the oracle for one chunk of each digest.")
@click.option("--seed", default=0, show_default=True, help="Which chunk --digests asks for.")
@click.option("--all", "every", is_flag=True, help="With --digests: every chunk (half an hour).")
@click.option("--prove", "proof", is_flag=True, help="Send the whole domain of each must file through the codec.")
@click.option("--log", type=click.Path(path_type=Path), help="With --prove: write the results here, as JSON.")
@click.option("--archive", type=click.Path(path_type=Path), help="Pack a release into this .tar.gz.")
@click.option("--only", default="*", metavar="GLOB", help="Only ids that match; the others stay as they are.")
@click.option("--workers", default=min(2, os.cpu_count() or 1), show_default=True, help="Processes.")
def main(
    check: bool, digests: bool, seed: int, every: bool, proof: bool, log: Path | None, archive: Path | None,
    only: str, workers: int,
) -> None:  # fmt: skip
    """Write, or do what the options ask."""
    if archive:
        click.echo(f"packed {pack(ROOT, archive)} files")
    wrong: list[str] = []
    if check:
        wrong += differences(build(lambda v: v.shape != "dig" and fnmatchcase(v.id, only), workers))
    if digests:
        wrong += digest_problems(only, seed, every)
    if proof:
        wrong += prove_all(only, log, workers)
    if check or digests or proof:
        click.echo("\n".join(wrong) or "data/golden is right")
        sys.exit(bool(wrong))
    if not archive:
        files = build(lambda v: v.shape != "dig" and fnmatchcase(v.id, only), workers)
        write(files)
        click.echo(f"wrote {len(files)} files, {sum(map(len, files.values())):,} bytes")


if __name__ == "__main__":
    main()
