"""What a bench writes: its form, its picture, and the files of other cards."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import feather_kernels
import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, bench, calls, matrix, products, roofline, samples
from feather_kernels.__main__ import main
from feather_kernels.jobs import pack_job, unpack_job
from feather_ref.policy import resolve

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(feather_kernels.__file__).parent / "bench.schema.json").read_text(encoding="utf-8"))
)
RESULTS = sorted((Path(__file__).parents[2] / "kernels/bench/results").glob("*.json"))
READ = {"work": "read", "us": 1.0, "gbs": 4000.0}
MACHINE = {
    "gpu": "a GPU", "arch": "sm_90", "multiprocessors": 132, "driver": 13000, "python": "3.12.3", "versions": {},
    "when": "2026-12-01T11:48:45+00:00",
}  # fmt: skip


def product(work: str = "gemv", us: float = 250.0, **more: object) -> dict[str, object]:
    """A product of 1000 x 1000 that moved 750,000 bytes."""
    return {"work": work, "format": "e4m3", "n": 1000, "k": 1000, "us": us, "gbs": 750.0 / us, **more}


def result(*rows: dict[str, object]) -> dict[str, object]:
    return {"machine": MACHINE, "quick": True, "seconds": 1.5, "rows": [*rows]}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_published_file_has_the_form(path: Path) -> None:
    SCHEMA.validate(json.loads(path.read_text(encoding="utf-8")))


def test_there_are_published_files() -> None:
    assert [path.stem for path in RESULTS if path.stem.startswith("h200")]


def test_what_is_wrong_has_no_time() -> None:
    wrong = product(us=float("nan"), right=False)
    text = bench.dump(result(READ, wrong))
    SCHEMA.validate(json.loads(text))
    assert json.loads(text)["rows"][1]["us"] is None
    assert bench.line(wrong).endswith("WRONG")


@pytest.mark.parametrize(
    ("key", "value"),
    [("us", None), ("us", 0), ("us", "1"), ("gbs", -1.0), ("n", 1.5), ("right", "yes"), ("x", "int8"), ("work", "")],
)
def test_the_form_refuses(key: str, value: object) -> None:
    assert SCHEMA.is_valid(result(READ, product()))
    assert not SCHEMA.is_valid(result(READ, product() | {key: value}))


def test_a_time_of_what_is_wrong_is_refused() -> None:
    assert not SCHEMA.is_valid(result(READ, product(right=False)))
    assert not SCHEMA.is_valid({**result(READ), "machine": {"gpu": "a GPU"}})


@pytest.fixture
def like_an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are chosen for one, whatever is here."""
    monkeypatch.setattr(calls, "check_size", lambda numbers: None)
    monkeypatch.setattr(products, "_multiprocessors", lambda: 132)
    monkeypatch.setattr(products, "_native", lambda: True)
    monkeypatch.setattr(products, "_capability", lambda: (9, 0))


def empty_matrix(product: bench.Product) -> fk.DeviceTensor:
    """W of zeros, in memory that nobody touches; scales are ones."""
    fmt, (n, k) = samples.row_of(product.name), (product.n, product.k)
    element = fmt.element if isinstance(fmt, fr.BlockFormat) else fmt
    words = np.zeros((n, -(-k * element.storage_bits // 128) * 4), np.uint32)
    if isinstance(fmt, fr.Format):
        return fk.DeviceTensor(words, (n, k), fmt, finite=product.finite)
    shape = -(-n // fmt.tile[0]), -(-k // fmt.tile[1])
    scales = np.full(shape, fr.encode(np.float32(1), fmt.scale), fr.code_dtype(fmt.scale))
    zeros = np.zeros(shape, fr.code_dtype(element)) if fmt.zero_point else None
    scale = np.ones(1, np.float32) if fmt.tensor_scale != "none" else None
    return fk.DeviceTensor(words, (n, k), fmt, scale=scale, scales=scales, zeros=zeros, finite=product.finite)


@pytest.mark.skipif(not _target.SIMULATOR, reason="words are on the host")
@pytest.mark.parametrize("quick", [True, False])
def test_what_is_compiled_ahead_is_what_the_rows_take(quick: bool, like_an_h200: None) -> None:
    """Every product of the bench, by the kernel that `prepare` chooses on an H200."""
    for product in (*bench.products(quick), *bench.CALLED):
        given = {"x": product.x, "cut": product.cut, "columns": product.columns}
        plan = fk.prepare(empty_matrix(product), **given)
        assert plan.kernel.job().key in {job.key for job in bench.jobs_of(product, "sm_90")}, product


def test_conversions_are_compiled_ahead() -> None:
    for name in bench.CONVERTED:
        row = fr.get_format(name)
        policy = resolve(row, nan=None if row.has_nan else "max")
        keys = {job.key for job in bench.jobs_of(name, "sm_90")}
        for shape in (
            (row.storage_bits, row.storage_shift, True, True),
            (8 * fr.code_dtype(row).itemsize, 0, True, False),
        ):
            assert pack_job(policy, "fp32", *shape).key in keys
            assert unpack_job(row, "fp32", *shape, False).key in keys


def test_every_kernel_is_asked_for_once_and_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(bench, "machine", lambda: MACHINE)
    monkeypatch.setattr(matrix, "in_processes", lambda make, tasks, processes: seen.extend(tasks) or [[1], [2, 3]])
    assert bench.compile_ahead(False, 2) == 3
    assert {arch for arch, _ in seen} == {"sm_90"}
    assert {what for _, what in seen} >= {*bench.products(False), *bench.CALLED, *bench.OTHERS, *bench.CONVERTED}


def test_figures_are_kept_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(quick: bool) -> Iterator[dict[str, object]]:
        yield READ
        yield product()
        raise RuntimeError("the GPU fell off")

    pool = SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 7)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))
    monkeypatch.setattr(bench, "machine", lambda: MACHINE)
    monkeypatch.setattr(bench, "rows", rows)
    kept: list[str] = []
    with pytest.raises(RuntimeError, match="fell off"):
        bench.report(True, lambda text: None, lambda figures: kept.append(bench.dump(figures)))
    assert [len(json.loads(text)["rows"]) for text in kept] == [1, 2]
    SCHEMA.validate(json.loads(kept[-1]))


# --- the picture ------------------------------------------------------------------------------


def test_points_are_products_of_the_greatest_size_that_were_right() -> None:
    found = roofline.points(
        result(
            READ,
            product("cuBLAS float16", 500.0),
            product(us=250.0),
            product(us=500.0),  # the same again: the first counts
            product("gemv", 250.0, format="e5m2", right=False),
            product("gemv", 250.0, n=10),
            product("ladder: one row a warp"),
            product("gemv", 250.0, x="float32"),
            product("columns", 250.0, columns=8),
        )
    )
    assert [point.name for point in found] == [
        "cuBLAS float16 e4m3", "gemv e4m3", "gemv e4m3, x in float32", "columns e4m3",
    ]  # fmt: skip
    assert found[1] == roofline.Point("gemv e4m3", 2e6 / 750e3, 8.0, 3.0 / 4000)
    assert (found[3].intensity, found[3].speed) == (8 * found[1].intensity, 8 * found[1].speed)


def test_a_picture_of_published_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = next(path for path in RESULTS if path.stem == "h200")
    for name, begin in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        done = CliRunner().invoke(main, ["plot", str(figures), str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).read_bytes().startswith(begin)
    axes = roofline.picture(json.loads(figures.read_text(encoding="utf-8"))).axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert labels[0].startswith("reading, ")
    assert any(label.startswith("gemv e4m3, 9") for label in labels)  # per cent of reading


@pytest.mark.parametrize(
    ("rows", "name", "text"),
    [
        ([product()], "a.svg", "has no row 'read'"),
        ([READ], "a.svg", "has no products to draw"),
        ([READ, product()], "a.gif", "must end in .svg, .png or .pdf"),
        ([{}], "a.svg", "no figures of a bench: 'work'"),
    ],
)
def test_what_cannot_be_drawn(tmp_path: Path, rows: list[dict[str, object]], name: str, text: str) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "figures.json").write_text(json.dumps(result(*rows)), encoding="utf-8")
    done = CliRunner().invoke(main, ["plot", str(tmp_path / "figures.json"), str(tmp_path / name)])
    assert done.exit_code == 1
    assert text in done.output
    assert not (tmp_path / name).exists()
