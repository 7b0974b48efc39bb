"""allocate, and pack --plan: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import feather_ref as fr
from command import ok, refused
from feather_ref import files
from feather_ref._cli_allocate import allocate as command
from feather_ref._planpicture import picture
from feather_ref._plans import read_plan

SCHEMA = Path(fr.__file__).parent / "plan.schema.json"
RNG = np.random.default_rng(13)
TENSORS = {
    "layer.weight": RNG.standard_normal((64, 96)).astype(np.float32),
    "layer.bias": RNG.standard_normal(96).astype(np.float16),
    "norm.weight": np.ones(64, np.float64),
    "scalar": np.float32(3.3),
    "ids": np.arange(3),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files.save("model.safetensors", TENSORS, {"format": "pt"})
    Path("times.json").write_text('{"device": "x", "seconds_per_value": {"mxfp4": 2e-10, "mxfp8": 4e-10}}')
    return tmp_path


def test_every_example_of_its_help(folder: Path) -> None:
    lines = [line.strip()[2:] for line in (command.help or "").splitlines() if line.strip().startswith("$ ")]
    assert len(lines) == 4
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "feather-ref"
        assert ok(*arguments)
    assert {path.name for path in folder.iterdir()} >= {"plan.json", "plan.png", "small.safetensors"}


def test_the_table_and_its_sums(folder: Path) -> None:
    head, *rows, total = ok("allocate", "model.safetensors", "--budget", "4.6").splitlines()
    assert re.split(r" {2,}", head) == ["tensor", "shape", "format", "bytes", "SQNR bits", "bits", "a value"]
    cells = {row.split()[0]: re.split(r" {2,}", row) for row in rows}
    assert set(cells) == set(TENSORS) - {"ids"}
    # 64 rows of 96 values: 12 words and 3 scale bytes each, or 6 for the blocks of 16 of nvfp4, and its own scale
    sizes = {"mxfp4": 64 * (48 + 3), "mixed4": 64 * (48 + 6), "nvfp4": 64 * (48 + 6) + 4}
    name, nbytes = cells["layer.weight"][2:4]
    assert int(nbytes) == sizes[name]
    assert cells["layer.weight"][-1] == "#" * round(8 * sizes[name] / 6144)
    assert cells["norm.weight"][4] == "exact"
    nbytes_in_all = sum(int(row[3]) for row in cells.values())
    assert total.startswith(f"4 tensors, {nbytes_in_all} bytes, {8 * nbytes_in_all / 6305:.4f} bits a value; mse ")
    assert total.endswith("; no plan within the budget is better")


def test_the_plan_is_packed_as_it_says(folder: Path) -> None:
    text = ok("allocate", "model.safetensors", "--budget", "6", "--exclude", "scalar", "-o", "plan.json", "--json")
    assert Path("plan.json").read_text() == text
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text()))
    plan = read_plan(text)
    assert "scalar" not in plan.formats and "ids" not in plan.formats
    lines = {
        line["name"]: line
        for line in json.loads(ok("pack", "model.safetensors", "--plan", "plan.json", "-o", "s.safetensors", "--json"))
    }
    assert {name for name, line in lines.items() if line["note"]} == {"scalar", "ids"}
    with files.load("s.safetensors") as packed:
        assert packed.metadata["format"] == "pt"
        for line in plan.tensors:
            assert lines[line.name]["bytes_after"] == line.bytes
            x, y = TENSORS[line.name].astype(np.float64), packed[line.name].dequantize().astype(np.float64)
            assert np.mean((x - y) ** 2) == pytest.approx(line.error, rel=1e-9, abs=0)
        assert packed["scalar"] == TENSORS["scalar"]


@pytest.mark.parametrize(
    "fmt", ["mxfp4", "nvfp4", "mxfp6_e2m3", "mixed4", "mixed6", "mixed8_b64", "uint4_g32", "e3m2/tensor"]
)
def test_every_kind_of_format_goes_into_a_file_and_back(folder: Path, fmt: str) -> None:
    ok("allocate", "model.safetensors", "--budget", "300", "--formats", fmt, "-o", "plan.json")
    ok("pack", "model.safetensors", "--plan", "plan.json", "-o", "small.safetensors")
    ok("unpack", "small.safetensors", "-o", "back.safetensors")
    assert fmt.split("/", maxsplit=1)[0] in ok("inspect", "small.safetensors")
    assert ok("diff", "small.safetensors", "small.safetensors") == "equal\n"
    x = TENSORS["layer.weight"]
    makers = {"mixed": fr.quantize_mixed, "e3m2/": lambda x, _: fr.pack_tensor(x, "e3m2", "tensor")}
    tensor = makers.get(fmt[:5], fr.quantize_blocks)(x, fmt)
    with files.load("back.safetensors") as back:
        assert back["layer.weight"].tobytes() == tensor.dequantize().tobytes()
        assert back["scalar"].shape == ()
    # packed tensors are copied whole, with all their parts
    ok("pack", "small.safetensors", "-o", "copy.safetensors", "--format", "e4m3")
    assert ok("diff", "small.safetensors", "copy.safetensors") == "equal\n"


def test_time(folder: Path) -> None:
    timed = ("allocate", "model.safetensors", "--cost", "time", "--times", "times.json", "--json", "--budget")
    assert {line["format"] for line in json.loads(ok(*timed, "1e-5"))["tensors"]} == {"mxfp4", "mxfp8_e4m3"}
    least = json.loads(ok(*timed, "1.262e-6"))
    assert sum(line["seconds"] for line in least["tensors"]) <= 1.262e-6
    assert "the fastest formats take 1.261e-06" in refused(*timed, "1.25e-6")
    assert "seconds" in ok(*timed[:-2], "--budget", "2e-6")
    assert "--cost time and --times belong together" in refused(*timed[:4], "--budget", "1")
    assert "nothing is said of mxfp6_e3m2" in refused(*timed, "1", "--formats", "mxfp6")
    Path("times.json").write_text("[1]")
    assert "it is not JSON like" in refused(*timed, "1")
    Path("times.json").write_text("{")
    assert "it is not JSON" in refused(*timed, "1")


def test_names_may_have_commas_in_brackets(folder: Path) -> None:
    names = ("--formats", "minifloat(4,3,bias=11)/row, mxfp8", "--formats", "bf16")
    plan = json.loads(ok("allocate", "model.safetensors", "--budget", "9", "--json", *names))
    assert {line["format"] for line in plan["tensors"]} <= {"minifloat(4,3,bias=11)/row", "mxfp8_e4m3", "bf16/none"}


def test_a_plan_of_another_file_is_refused(folder: Path) -> None:
    ok("allocate", "model.safetensors", "--budget", "6", "-o", "plan.json")
    packing = ("--plan", "plan.json", "-o", "small.safetensors")
    for change, message in (
        ({"layer.weight": np.ones((3, 4), np.float32)}, "tensor 'layer.weight' has shape [3, 4], not [64, 96]"),
        ({"layer.weight": np.ones((64, 96))}, "its tensors have other names, dtypes or shapes"),
        ({"more": np.ones(2)}, "its tensors have other names, dtypes or shapes"),
    ):
        files.save("other.safetensors", {**TENSORS, **change})
        assert message in refused("pack", "other.safetensors", *packing)
    files.save("other.safetensors", {"ids": TENSORS["ids"]})
    said = refused("pack", "other.safetensors", *packing)
    assert re.fullmatch(r"plan: it asks for '.*'; other.safetensors has 'ids'", said)
    files.save("other.safetensors", TENSORS)
    ok("pack", "other.safetensors", "--plan", "plan.json", "-o", "planned.safetensors")
    said = refused("pack", "planned.safetensors", *packing)
    assert re.fullmatch(r"plan: tensor '.*' of planned.safetensors is packed already", said)
    said = refused("pack", "model.safetensors", "--plan", "model.safetensors", *packing[2:])
    assert said == "model.safetensors: it is not JSON; `feather-ref allocate -o` writes a plan"
    Path("plan.json").write_text("{}")
    assert "no plan of feather-ref allocate" in refused("pack", "model.safetensors", *packing)
    assert not Path("small.safetensors").exists()


def test_pack_wants_one_or_the_other(folder: Path) -> None:
    ok("allocate", "model.safetensors", "--budget", "6", "-o", "plan.json")
    packing = ("pack", "model.safetensors", "-o", "small.safetensors")
    assert "give a --format" in refused(*packing)
    for more in (("--format", "e4m3"), ("--scale", "row"), ("--include", "ids"), ("--nan", "zero")):
        assert "--plan" in refused(*packing, "--plan", "plan.json", *more)


def test_a_part_may_not_take_a_name(folder: Path) -> None:
    files.save("model.npz", {"w": np.ones((2, 32)), "w_selectors": np.ones(2)})
    ok("allocate", "model.npz", "--budget", "20", "--formats", "mixed4", "--include", "w", "-o", "plan.json")
    line = refused("pack", "model.npz", "--plan", "plan.json", "-o", "small.safetensors")
    assert "a part of it would take the name of 'w_selectors'" in line


def test_what_allocate_refuses(folder: Path) -> None:
    base = ("allocate", "model.safetensors", "--budget")
    assert "the smallest formats take" in refused(*base, "2")
    assert "budget must be finite and positive" in refused(*base, "-1")
    assert "unknown format 'mxfp5'" in refused(*base, "6", "--formats", "mxfp5")
    assert "no float tensor is chosen" in refused(*base, "6", "--include", "ids")
    assert "is called like 'x'" in refused(*base, "6", "--include", "x")
    assert "must end in .png, .svg or .pdf" in refused(*base, "6", "--draw", "plan.txt")
    assert not Path("plan.txt").exists()


def test_nothing_that_is_read_is_written_over(folder: Path) -> None:
    base = ("allocate", "model.safetensors", "--budget", "6")
    Path("times.json").write_text('{"seconds_per_value": {"mxfp4": 1e-12}}')
    Path("link.png").symlink_to("model.safetensors")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for option in (("-o", "model.safetensors"), ("--draw", "link.png")):
        assert refused(*base, *option) == f"{option[1]}: is the input itself; write to another name"
    timed = (*base, "--cost", "time", "--times", "times.json", "-o", "times.json")
    assert refused(*timed) == "times.json: is the file of times; write to another name"
    line = refused(*base, "-o", "plan.svg", "--draw", "./plan.svg")
    assert line == "plan.svg: is to be the plan and the picture; write one to another name"
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_picture_of_names_that_its_font_lacks(folder: Path) -> None:
    """Without a warning: they are escaped."""
    files.save("names.safetensors", {"層": np.ones((2, 32), np.float32), "é": np.ones((2, 32), np.float32)})
    figure = picture(read_plan(ok("allocate", "names.safetensors", "--budget", "6", "--json").encode()))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == sorted([r"'\u5c64'", "é"])
    assert ok("allocate", "names.safetensors", "--budget", "6", "--draw", "names.png").startswith("tensor ")


def test_the_picture(folder: Path) -> None:
    ok("allocate", "model.safetensors", "--budget", "6", "--draw", "plan.svg")
    text = Path("plan.svg").read_text()
    assert text.startswith("<?xml") and "</svg>" in text


def test_a_format_that_is_none(folder: Path) -> None:
    """By its option, with what is close among the formats of blocks; and how a mixed one is packed."""
    files.save("one.safetensors", {"w": np.ones((2, 32), np.float32)})
    said = refused("allocate", "one.safetensors", "--budget", "5", "--formats", "mxfp7")
    assert "formats: unknown format 'mxfp7'" in said
    assert "mxfp" in said.partition("blocks:")[2]
    said = refused("pack", "one.safetensors", "-o", "packed.safetensors", "--format", "mixed8")
    assert "allocate --formats mixed8" in said


@pytest.mark.parametrize(
    "fmt", ["e4m3/row", "e4m3/none", "e2m1/tensor", "e3m2/row", "mxfp4", "nvfp4", "mixed6", "bf16"]
)
def test_the_bytes_of_a_plan_are_those_of_the_file(folder: Path, fmt: str) -> None:
    """Of rows that fill no whole word, too: 5 codes of 8 bits are 5 bytes there, and 8 in memory."""
    rng = np.random.default_rng(5)
    files.save("odd.npz", {f"w{n}": rng.standard_normal((3, n), np.float32) for n in (1, 5, 6, 33, 64)})
    plan = json.loads(ok("allocate", "odd.npz", "--budget", "200", "--formats", fmt, "-o", "plan.json", "--json"))
    packed = json.loads(ok("pack", "odd.npz", "--plan", "plan.json", "-o", "odd.safetensors", "--json"))
    planned = {line["name"]: line["bytes"] for line in plan["tensors"]}
    assert planned == {line["name"]: line["bytes_after"] for line in packed}
    data = Path("odd.safetensors").read_bytes()
    assert sum(planned.values()) == len(data) - 8 - int.from_bytes(data[:8], "little")
    if fmt == "e4m3/row":
        assert planned["w5"] == 3 * (5 + 4)
    bits = 8 * sum(planned.values()) / (3 * (1 + 5 + 6 + 33 + 64))
    assert f"{sum(planned.values())} bytes, {bits:.4f} bits a value" in ok(
        "allocate", "odd.npz", "--budget", "200", "--formats", fmt
    )
