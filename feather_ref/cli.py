"""feather-ref: the command line.

Text goes to stdout in columns, never cut when it is piped; progress goes to stderr.  A format is a
name, an alias, an expression or a JSON row, everywhere.

    exit code 0     done, or equal
    exit code 1     `diff` found a difference
    exit code 2     bad usage or bad input, said in one line on stderr
    exit code 130   interrupted; 143: told to end (SIGTERM); no file is left half

Source: design of this project.
"""

from __future__ import annotations

import dataclasses
import difflib
import io
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from feather_ref import __version__, _cli_allocate, _cli_conform, _cli_explore, _cli_export, _npy
from feather_ref._anatomy import Number, decimal_text, fields_of, hex_code, hex_text, number_of, spaced
from feather_ref._cli_end import orderly
from feather_ref._cli_output import FORCE, INPUT, OUTPUT, check_free, is_stdout, tensor_target
from feather_ref._cli_show import counted
from feather_ref._cli_show import finite as _finite
from feather_ref._cli_show import progress as _progress
from feather_ref._cli_show import show as _show
from feather_ref._cli_show import show_json as _show_json
from feather_ref._compare import compare_tensors, printable
from feather_ref._literal import encode_numbers, read_number
from feather_ref._planned import pack_planned
from feather_ref._plans import Plan, read_plan
from feather_ref._rowjson import parse_row
from feather_ref._sweep import Array
from feather_ref.allocate import MIXED_FORMATS
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, get_block_format
from feather_ref.blocks import SCALE_RULES as BLOCK_RULES
from feather_ref.codec import check_codes, code_dtype, value_table
from feather_ref.codes import CLASSES, classify
from feather_ref.files import BYTE_ORDERS, Tensor, load
from feather_ref.formats import FORMATS, Format
from feather_ref.packing import ORDERS
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SHORT, SUBNORMALS
from feather_ref.profiles import PROFILES
from feather_ref.repack import FLOAT_NAMES, Line, choose, inspect_file, pack_file, unpack_file
from feather_ref.rounding import DETERMINISTIC
from feather_ref.tensors import SCALE_RULES, SCALES

F = TypeVar("F", bound=Callable[..., Any])

_RULES = tuple(dict.fromkeys([*SCALE_RULES, *BLOCK_RULES]))
_BRIEF = 6  # digits of a number in a list of formats
_LONG = 200  # characters of a line of metadata


# --- errors -----------------------------------------------------------------------------------


class Failure(click.ClickException):
    """Bad input: the program ends with one line."""

    exit_code = 2


class Interrupted(Failure):
    """The program ends as a shell expects it after an interrupt."""

    exit_code = 130


SECTIONS = (
    ("Numbers and codes", ("encode", "decode", "explain", "explore", "table", "formats")),
    ("Files of tensors", ("pack", "unpack", "inspect", "diff", "allocate")),
    ("Conformance", ("check", "conform", "gen", "suites", "export")),
)


class Commands(click.Group):
    """A group whose commands answer bad input with a line, never with a traceback."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are about."""
        listed = {name for _, names in SECTIONS for name in names}
        others = ("More", tuple(name for name in sorted(self.commands) if name not in listed))
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in (*SECTIONS, others):
            found = [self.commands[name] for name in names if name in self.commands]
            if found:
                with formatter.section(title):
                    formatter.write_dl([(str(each.name), each.get_short_help_str(width)) for each in found])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly: nobody reads on
        except (ValueError, TypeError, OverflowError) as error:
            raise Failure(" ".join(str(error).split())) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{where}{error.strerror or error}") from error
        except MemoryError as error:
            raise Failure("not enough memory") from error
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted") from error


# --- arguments --------------------------------------------------------------------------------


def _read_format(ctx: click.Context, param: click.Parameter, value: str | None) -> Format | None:
    """A format: a name, an expression, a JSON row, or @ and the name of a file with one of them."""
    if value is None:
        return None
    try:
        text = Path(value[1:]).read_text(encoding="utf-8").strip() if value.startswith("@") else value
        return parse_row(text)
    except (ValueError, TypeError, OSError) as error:
        if _reads(read_number, value):
            raise click.BadParameter(f"{value!r} is a number; the format comes first: e4m3 {value}") from error
        if _reads(get_block_format, value):
            raise click.BadParameter(f"{value!r} is a block format, for pack and fr.quantize_blocks") from error
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise click.BadParameter(said.removeprefix("fmt: ")) from error


def _reads(read: Callable[[str], object], text: str) -> bool:
    """Whether a reader takes a text."""
    try:
        read(text)
    except ValueError:
        return False
    return True


def _read_target(ctx: click.Context, param: click.Parameter, value: str | None) -> Format | BlockFormat | None:
    """A block format, whose names come first where --scale is not given, or a format."""
    if value is not None and ctx.params.get("scale") is None:
        with suppress(ValueError):
            return get_block_format(value)
    try:
        return _read_format(ctx, param, value)
    except click.BadParameter as error:
        if _reads(get_block_format, str(value)):
            raise click.BadParameter(f"{value!r} has scales of its own; leave --scale out") from error
        if value in MIXED_FORMATS:
            what = f"{value!r} mixes formats; make a plan by `allocate --formats {value}`, and take --plan"
            raise click.BadParameter(what) from error
        close = difflib.get_close_matches(str(value).lower(), BLOCK_FORMATS, n=3)
        more = f"; block formats: {', '.join(close)}" if close else ""
        raise click.BadParameter(f"{error.message}{more}") from error


def _read_nan(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """What NaN becomes: a name, a code in hex, or two codes with a comma, for +NaN and -NaN."""
    if value is None or value in NANS:
        return value
    try:
        codes = tuple(_code(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither one of {', '.join(NANS)} nor a code in hex") from None
    return codes[0] if len(codes) == 1 else codes


FORMAT = click.argument("fmt", metavar="FORMAT", callback=_read_format)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of columns.")


def _named(option: str, names: Sequence[str], text: str) -> Callable[[Any], Any]:
    """An option that takes one of some names, or its short name; the command gets the long one."""
    short = [token for token, name in SHORT.items() if name in names]
    taken, shown = click.Choice([*names, *short]), f"[{'|'.join(names)}]"
    return click.option(option, type=taken, callback=_long_name, metavar=shown, help=text)


def _long_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else SHORT.get(value, value)


_POLICIES: Sequence[Callable[[Any], Any]] = (
    _named("--rounding", DETERMINISTIC, "Or short: rne, rtz, ... Default: nearest_even."),
    _named("--overflow", OVERFLOWS, "Beyond the greatest value; or short: sat, nonsat, ... Default: the format's."),
    click.option("--nan", callback=_read_nan, metavar="NAME|CODE", help=f"For NaN inputs: {', '.join(NANS)}, or 7F."),
    click.option("--negative", type=click.Choice(NEGATIVES), help="For formats without a sign."),
    click.option("--subnormals", type=click.Choice(SUBNORMALS), help="Default: keep."),
    click.option(
        "--profile", type=click.Choice(list(PROFILES)), help="The choices of a library; options beside it win."
    ),
)


def policies(command: F) -> F:
    """The options that name choices; the command gets them as **choices."""
    for option in reversed(_POLICIES):
        option(command)  # which notes itself there
    return command


def given(choices: dict[str, Any]) -> dict[str, Any]:
    """The choices that were made."""
    return {name: value for name, value in choices.items() if value is not None}


def _spelled(names: Iterable[str]) -> str:
    """Options as they are typed."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _check_choices(fmt: Format | BlockFormat | None, choices: dict[str, Any]) -> None:
    """Refuse choices that a format has no use for."""
    if isinstance(fmt, BlockFormat):
        if unused := given(choices).keys() & {"negative", "profile"}:
            raise click.UsageError(f"{_spelled(sorted(unused))}: not for blocks; say --overflow, --nan, --subnormals")
    elif fmt is not None and fmt.signed and choices.get("negative") is not None:
        raise click.UsageError(f"--negative is for formats without a sign; {fmt.name} has one")


def _code(text: str) -> int:
    """A code in hex (7E, 0x7E) or, after a small 0b, in binary (0b01111110); 0B10 is hex, as we print it."""
    if re.fullmatch(r"0b[01]{1,64}", text):
        return int(text, 2)
    if not re.fullmatch(r"(0x)?[0-9a-f]+", text, re.IGNORECASE | re.ASCII):
        raise ValueError(f"{text!r} is not a code; write it in hex, as 7E or 0x7E, or in binary, as 0b01111110")
    code = int(text, 16)
    if code >> 64:
        raise ValueError(f"{text[:40]!r} is not a code: it has more than 64 bits")
    return code


def _checked(codes: list[int] | int, texts: Sequence[str], fmt: Format, name: str) -> Array:
    """Codes of a format; of the first that is too wide, whether a decimal number was meant."""
    try:
        return check_codes(codes, fmt, name)
    except ValueError as error:
        wide = next((text for text in texts if _code(text) > fmt.code_mask), "")
        if not wide.isdecimal() or int(wide) > fmt.code_mask:
            raise
        raise ValueError(f"{error}; codes are hex: the decimal {wide} is {hex_code(int(wide), fmt)}") from error


def _say_hex(texts: Sequence[str]) -> None:
    """Say that codes are hex, where they could be taken for decimal numbers."""
    if not any(re.search(r"[a-z]", text, re.IGNORECASE) for text in texts):
        text = next((text for text in texts if int(text, 16) != int(text)), None)
        if text is not None:
            click.echo(f"note: codes are read in hex: {text} is 0x{text.upper()} = {int(text, 16)}", err=True)


def _tokens(values: Sequence[str]) -> list[str]:
    """The arguments, or the words on stdin where there are none, or just "-"."""
    if values and tuple(values) != ("-",):
        return list(values)
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("nothing is given; give some, or pipe them in")
    return sys.stdin.read().split()


# --- numbers and codes ------------------------------------------------------------------------


@click.group(cls=Commands, context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="feather-ref")
def cli() -> None:
    """Number formats of machine learning, bit by bit: e4m3, e5m2, e2m1, bf16 and any other.

    A FORMAT is a name or an alias (`feather-ref formats` lists them), an expression like
    "minifloat(4,3,bias=11)" or "binary8p3se", a JSON row like '{"name": "tiny", "bits": 5,
    "exponent_bits": 2, "mantissa_bits": 2, "bias": 1}', or @FILE with one of these in it.

    \b
    Examples:
      $ feather-ref encode e4m3 0.3 464 nan
      $ feather-ref explain e4m3 --code 7E
      $ feather-ref pack model.safetensors -o small.safetensors --format e4m3 --scale row
    """


@cli.command(context_settings={"ignore_unknown_options": True})
@FORMAT
@click.argument("values", metavar="[VALUES]...", nargs=-1)
@policies
@JSON
def encode(fmt: Format, values: tuple[str, ...], as_json: bool, **choices: Any) -> None:
    """Numbers to codes, each rounded once.

    Numbers are decimal (0.3, -1e-3), hexadecimal with an exponent (0x1.8p3), inf or nan; they are
    taken exactly as typed; the error is that of the code. Without VALUES, or with "-", they are read from stdin.

    \b
    Example:
      $ feather-ref encode e4m3 0.3 464 nan
      input  code  bits        value   error
      0.3    2A    0 0101 010  0.3125  0.0125
      464    7E    0 1111 110  448     -16
      nan    7F    0 1111 111  NaN     -

    \b
      $ feather-ref encode e4m3 -0.5 465 --overflow nonsaturating
      $ echo 0.25 1e9 | feather-ref encode e5m2 --profile ml_dtypes --json
    """
    texts = _tokens(values)
    if unknown := [text for text in texts if text.startswith("--")]:
        raise click.NoSuchOption(unknown[0])
    _check_choices(fmt, choices)
    numbers = [read_number(text) for text in texts]
    codes = encode_numbers(numbers, fmt, **given(choices)).tolist()
    rows = []
    for text, number, code in zip(texts, numbers, codes, strict=True):
        value = number_of(code, fmt)
        finite = number.kind == value.kind == "finite"
        error = decimal_text(value.signed - number.signed) if finite else "-"
        rows.append((text, hex_code(code, fmt), spaced(fields_of(fmt, code)), str(value), error))
    _show(("input", "code", "bits", "value", "error"), rows, as_json)


@cli.command(name="decode")
@FORMAT
@click.argument("codes", metavar="[CODES]...", nargs=-1)
@JSON
def decode_(fmt: Format, codes: tuple[str, ...], as_json: bool) -> None:
    """Codes to values.

    Codes are hex, with or without 0x, and never decimal: 10 is sixteen, and the decimal 126 is
    written 7E. 0b01111110 is binary. Without CODES, or with "-", they are read from stdin.

    \b
    Example:
      $ feather-ref decode e4m3 7E 29
      code  bits        value
      7E    0 1111 110  448
      29    0 0101 001  0.28125
    """
    texts = _tokens(codes)
    checked = _checked([_code(text) for text in texts], texts, fmt, "codes").tolist()
    _say_hex(texts)
    rows = [(hex_code(code, fmt), spaced(fields_of(fmt, code)), str(number_of(code, fmt))) for code in checked]
    _show(("code", "bits", "value"), rows, as_json)


@cli.command(name="explain", context_settings={"ignore_unknown_options": True})
@FORMAT
@click.argument("what", metavar="[VALUE|0xCODE]", required=False)
@click.option("--code", help="A code in hex, 7E or 0x7E, or in binary: 0b01111110.")
@click.option("--value", help="A number: 0.3, -1e-3, 0x1.8p3, inf, nan.")
@click.option("--word", help="A word in hex, of packed codes.")
@click.option("--order", type=click.Choice(ORDERS), help="Of lanes in a word. Default: little.")
@policies
def explain_(
    fmt: Format,
    what: str | None,
    code: str | None,
    value: str | None,
    word: str | None,
    order: Any,
    **choices: Any,
) -> None:
    """Show a code, a number or a word bit by bit.

    A number is placed between its neighbours; without any of them, the format itself is shown. A
    bare argument is a number, and a code only with 0x before it.

    \b
    Examples:
      $ feather-ref explain e4m3
      $ feather-ref explain e4m3 --code 7E
      $ feather-ref explain e4m3 0x7E
      $ feather-ref explain e4m3 --value 0.3 --rounding toward_zero
      $ feather-ref explain e4m3 -0.3
      $ feather-ref explain e4m3 --word 44344030
    """
    from feather_ref._explain import explain, explain_word  # noqa: PLC0415 - for this command alone

    if [what, code, value, word].count(None) < 3:
        raise click.UsageError("give one thing: a code, a value or a word")
    if word is None and order is not None:
        raise click.UsageError("--order is for a --word")
    if word is not None and given(choices):
        raise click.UsageError(f"{_spelled(given(choices))}: a word is read, and nothing is rounded")
    _check_choices(fmt, choices)
    if what is not None and re.fullmatch(r"0[xb][0-9a-f]+", what, re.IGNORECASE):
        code = what
    elif what is not None:
        if not _reads(read_number, what) and re.fullmatch(r"[0-9a-f]+", what, re.IGNORECASE):
            raise ValueError(f"{what!r} is not a number; a code is written 0x{what}")
        value = what
    if word is not None:
        click.echo(str(explain_word(_code(word), fmt, order or "little")))
        return
    number = None if value is None else _as_python(read_number(value))
    known = None if code is None else int(_checked(_code(code), [code], fmt, "code"))
    explanation = explain(fmt, known, value=number, **given(choices))
    if code is not None:
        shown = {table.head[0] for table in explanation.tables}
        used = {name for table, names in _TABLES.items() if table in shown for name in names}
        if unused := [name for name in given(choices) if name not in used]:
            raise click.UsageError(f"{_spelled(unused)}: nothing here depends on it, as a code is not rounded")
        _say_hex([code])
    click.echo(str(explanation))
    if value is not None and explanation.code is not None:
        typed = int(encode_numbers([read_number(value)], fmt, **given(choices))[0])
        if typed != explanation.code:
            click.echo(f"note: {value} as typed gives {hex_code(typed, fmt)}; float64 does not hold it", err=True)


_TABLES = {"overflow": ("rounding", "overflow", "profile"), "nan": ("nan", "profile")}
"""The choices that the tables on the page of a code depend on."""


def _as_python(number: Number) -> int | float:
    """A number as Python has it: integers exactly, others in float64."""
    if number.kind != "finite" or not number.magnitude:
        size = {"nan": math.nan, "inf": math.inf}.get(number.kind, 0.0)
        return math.copysign(size, -1 if number.negative else 1)
    x = number.signed
    try:
        near = float(x)
    except OverflowError:
        raise ValueError(f"{number.text(6)} is beyond float64, in which numbers are explained") from None
    return x.numerator if x.denominator == 1 else near


# --- formats ----------------------------------------------------------------------------------


@cli.command()
@FORMAT
@click.option("--as", "kind", type=click.Choice(["text", "csv", "memh", "c"]), default="text", show_default=True)
def table(fmt: Format, kind: str) -> None:
    """List every code of a format, with its value.

    Formats have up to 16 bits here. memh is for Verilog's $readmemh: the value of each code as the
    bits of a float32, or of a float64 where float32 does not hold them all. c is an array of C's
    hexadecimal floats.

    \b
    Examples:
      $ feather-ref table e2m1
      $ feather-ref table e4m3 --as csv
      $ feather-ref table ue4m3 --as memh
      $ feather-ref table "minifloat(2,3,bias=4)" --as c
    """
    values = value_table(fmt)
    codes = np.arange(values.size)
    if kind == "memh":
        bits = values.view(f"u{values.itemsize}").tolist()
        click.echo(f"// {fmt.name}: the value of each code as binary{8 * values.itemsize}")
        click.echo("\n".join(f"{pattern:0{2 * values.itemsize}X}" for pattern in bits))
    elif kind == "c":
        click.echo(_c_array(fmt, values))
    else:
        classes = [CLASSES[i] for i in classify(codes, fmt)]
        shown = map(repr, values.tolist()) if kind == "csv" else (str(number_of(code, fmt)) for code in codes.tolist())
        names = [(hex_code(code, fmt), spaced(fields_of(fmt, code))) for code in codes.tolist()]
        rows = [(*name, found, value) for name, found, value in zip(names, classes, shown, strict=True)]
        head = ("code", "bits", "class", "value")
        if kind == "csv":
            click.echo("\n".join(map(",".join, (head, *rows))))
        else:
            _show(head, rows)


def _c_array(fmt: Format, values: Array) -> str:
    single = values.dtype == np.float32
    name = re.sub(r"\W+", "_", fmt.name).strip("_")
    lines = [f"    {_c_number(x, single)}, /* {hex_code(code, fmt)} */" for code, x in enumerate(values.tolist())]
    start = f"static const {'float' if single else 'double'} {name}_values[{values.size}] = {{"
    return "\n".join([f"/* {fmt.name}: the value of each code */", "#include <math.h>", start, *lines, "};"])


def _c_number(x: float, single: bool) -> str:
    sign = "-" if math.copysign(1, x) < 0 else ""
    if not math.isfinite(x):
        return "NAN" if math.isnan(x) else f"{sign}INFINITY"
    return f"{sign}{hex_text(abs(Fraction(x)))}{'f' if single else ''}"


@cli.command()
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--bits", type=click.IntRange(1, 64), help="Only formats of so many bits.")
@click.option("--blocks", is_flag=True, help="The formats whose numbers share a scale, which `pack` takes too.")
@JSON
def formats(words: tuple[str, ...], bits: int | None, blocks: bool, as_json: bool) -> None:
    """List the formats that have a name.

    FILTER: parts of names, aliases or sources; all must occur. Besides these there are the
    factories minifloat(E,M), minifloat(E,M,bias=B), minifloat(E,M,nan=False) and the P3109 formats
    binary3p1se to binary16p16uf.

    \b
    Examples:
      $ feather-ref formats
      $ feather-ref formats ocp --bits 8
      $ feather-ref formats float8_e4m3fn --json
      $ feather-ref formats binary8p3se
      $ feather-ref formats --blocks
    """
    if blocks:
        some = [row for row in BLOCK_FORMATS.values() if bits in (None, row.element.bits) and _mentions(row, words)]
        if not some:
            raise ValueError(f"no block format {_filtered(words, bits)}")
        columns = ("name", "element", "block", "scale", "rule", "bits each", "also called", "source")
        _show(columns, [_block_cells(row) for row in some], as_json)
        return
    found = [row for row in FORMATS.values() if bits in (None, row.bits) and _mentions(row, words)]
    if not found and words and any(_mentions(row, words) for row in BLOCK_FORMATS.values()):
        raise ValueError(f"{' '.join(words)!r} names block formats alone: add --blocks")
    if not found and len(words) == 1 and bits is None:
        found = [parse_row(words[0])]
    if not found:
        raise ValueError(f"no named format {_filtered(words, bits)}")
    head = ("name", "bits", "fields", "max", "least above 0", "Inf", "NaN", "also called", "source")
    _show(head, [_format_cells(row) for row in found], as_json)


def _filtered(words: Sequence[str], bits: int | None) -> str:
    """What was asked for, as the end of a sentence."""
    return " and ".join([*([] if bits is None else [f"has {bits} bits"]), *(f"mentions {word!r}" for word in words)])


def _block_cells(row: BlockFormat) -> tuple[str, ...]:
    scale = f"{row.scale}{', and float32 for all' if row.tensor_scale != 'none' else ''}"
    block = " x ".join(map(str, row.block))
    names = ", ".join(row.aliases)
    return (row.name, str(row.element), block, scale, row.scale_rule, f"{row.bits_per_value:g}", names, str(row.source))


def _mentions(row: Format | BlockFormat, words: Sequence[str]) -> bool:
    text = " ".join((row.name, *row.aliases, str(row.source))).lower()
    return all(word.lower() in text for word in words)


def _format_cells(row: Format) -> tuple[str, ...]:
    if row.kind == "float":
        fields = f"{'s1 ' if row.signed else ''}e{row.exponent_bits} m{row.mantissa_bits} bias {row.bias}"
        least = row.exact(1 if row.has_subnormals else row.has_zero << row.mantissa_bits)
    else:
        fields = "table" if row.kind == "table" else f"{'' if row.signed else 'un'}signed * 2^{-row.bias}"
        least = Fraction(row.min_normal)
    top = Fraction(row.max) if row.kind == "table" else row.exact(row.max_magnitude)
    infinity = "-" if row.inf_magnitude is None else hex_code(row.inf_magnitude, row)
    nan = "-" if row.canonical_nan is None else hex_code(row.canonical_nan, row)
    aliases, source = ", ".join(row.aliases) or "-", str(row.source)
    ends = decimal_text(top, _BRIEF), decimal_text(least, _BRIEF)
    return row.name, str(row.bits), fields, *ends, infinity, nan, aliases, source


# --- differences ------------------------------------------------------------------------------


@cli.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option("--x", metavar="INPUT", type=INPUT, help="The numbers that A was made from.")
@click.option("--format", "fmt", metavar="FORMAT", callback=_read_format, help="What the codes are.")
@click.option("--kind", type=click.Choice(["codes", "words"]), help="What A holds, where it could be both.")
@click.option("--order", type=click.Choice(ORDERS), help="Of lanes in words. Default: little.")
@click.option("--nan-equal", is_flag=True, default=None, help="Any NaN is as good as another.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Only tensors called like this. May be repeated.")
@policies
def diff(
    a: str, b: str | None, x: Path | None, fmt: Format | None, include: tuple[str, ...], **choices: Any
) -> None:  # fmt: skip
    """Compare two files, or codes with their input.

    Two files are compared bit by bit, packed tensors by their codes and scales, NaN too; what is packed
    in one file alone, or in two formats, by the values that it stands for. A, B, INPUT: .npy, .npz,
    .safetensors, .gguf; "-" is an .npy on stdin. With --x, A holds codes or words that somebody's
    packer made from INPUT: the answer says which policy, lane order or other choice would make them
    equal. Exit code 1 says that something differs.

    \b
    Examples:
      $ feather-ref diff mine.npy theirs.npy
      $ feather-ref diff mine.npy theirs.npy --format e4m3
      $ feather-ref diff small.safetensors back.safetensors
      $ feather-ref diff mine.npy --x input.npy --format e4m3 --overflow nonsaturating
      $ feather-ref diff small.safetensors --x model.safetensors --include layer.weight
    """
    if (b is None) == (x is None):
        raise click.UsageError("give a second file, or the input with --x")
    if a == b == "-":
        raise click.UsageError("A and B are both stdin; give a file")
    if x is None:
        if given(choices):
            raise click.UsageError(f"{_spelled(given(choices))} needs --x; two files are compared bit by bit")
        left, right = _tensors(a, include), _tensors(str(b), include)
        if fmt is not None and not any(_may_be_codes(each, fmt) for each in (*left.values(), *right.values())):
            raise click.UsageError(f"--format: no tensor of A or B is {code_dtype(fmt)}, as codes of {fmt} are")
        lines, equal = compare_tensors(left, right, fmt)
        click.echo("\n".join(lines) if lines else "equal")
        sys.exit(0 if equal else 1)
    from feather_ref.diff import diff as compare  # noqa: PLC0415 - for this command alone

    _check_choices(fmt, choices)
    tensor, numbers = _single(a, include), _single(str(x), include)
    if not isinstance(numbers, np.ndarray):
        numbers = numbers.dequantize()
    result = compare(tensor, numbers, fmt, **given(choices))
    click.echo(str(result))
    sys.exit(0 if result.equal else 1)


def _may_be_codes(tensor: Tensor, fmt: Format) -> bool:
    return isinstance(tensor, np.ndarray) and tensor.dtype.newbyteorder("=") == code_dtype(fmt)


def _tensors(path: str, include: Sequence[str]) -> dict[str, Tensor]:
    """The tensors of a file that are included; a single one is, whatever its name."""
    if path == "-":
        if sys.stdin is None:
            raise click.UsageError("stdin is closed; give a file")
        data = sys.stdin.buffer.read()
        header = _npy.read_header(io.BytesIO(data), len(data))
        return {"-": header.arrange(np.frombuffer(data, header.dtype, offset=header.size))}
    tensors = load(path)
    chosen = choose(tensors, include, ()) if len(tensors) > 1 else {*tensors}
    return {name: tensors[name] for name in tensors if name in chosen}


def _single(path: str, include: Sequence[str]) -> Tensor:
    tensors = _tensors(path, include)
    if len(tensors) != 1:
        held = f"{path}: {'includes' if include else 'holds'} {len(tensors)} tensors"
        raise ValueError(f"{held}; --x compares one with its input: choose it with --include")
    return next(iter(tensors.values()))


# --- files ------------------------------------------------------------------------------------


def _patterns(command: F) -> F:
    for name, what in (("exclude", "Not tensors called like this."), ("include", "Only tensors called like this.")):
        click.option(f"--{name}", multiple=True, metavar="PATTERN", help=f"{what} May be repeated.")(command)
    return command


BYTE_ORDER = click.option(
    "--byte-order", type=click.Choice(BYTE_ORDERS), help="Of a .gguf file that is written. Default: little."
)


@cli.command()
@click.argument("source", metavar="IN", type=INPUT)
@click.option("-o", "--output", type=OUTPUT, required=True, help="A .safetensors or .gguf file; - is stdout.")
@FORCE
@click.option("--format", "fmt", metavar="FORMAT", callback=_read_target, help="A format, or one of blocks, as mxfp4.")
@click.option("--plan", "plan_path", metavar="FILE", type=INPUT, help="What `allocate` wrote, instead of a format.")
@click.option("--scale", type=click.Choice(["none", *SCALES]), is_eager=True, help="Default: none, but for blocks.")
@click.option(
    "--scale-rule", type=click.Choice(_RULES), metavar="NAME", help="amax, pow2; of blocks floor, rceil, mse, ..."
)
@click.option("--order", type=click.Choice(ORDERS), help="Of lanes in words, for .safetensors. Default: little.")
@BYTE_ORDER
@_patterns
@policies
@JSON
def pack(
    source: Path,
    output: Path,
    force: bool,
    fmt: Format | BlockFormat | None,
    plan_path: Path | None,
    scale: str | None,
    scale_rule: Any,
    order: Any,
    byte_order: Any,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Pack the float tensors of a file.

    IN is an .npy, .npz, .safetensors or .gguf file. Integers, and tensors that are packed already,
    are copied as they are; the table says so. A scale is stored as NAME_scale, to multiply with,
    that of a whole nvfp4 tensor as NAME_scale_2. The dtype is the one that other programs know
    (F8_E4M3, F4, F8_E8M0, ...) where there is one, else U32 words with a note in the metadata. A plan
    says a format for each tensor, and the rest is copied. A .gguf file takes q8_0, q4_0, mxfp4,
    ggml_mxfp4, ggml_nvfp4, fp16, bf16 and fp32; it keeps the metadata of another. Of a model in parts
    IN is the first, model-00001-of-00003.gguf; either byte order is read. To stdout goes a .safetensors file.

    SQNR bits: how much stronger the numbers are than the error; one more halves the error.

    \b
    Examples:
      $ feather-ref pack model.safetensors -o small.safetensors --format e4m3 --scale row
      $ feather-ref pack weights.npz -o small.safetensors --format e2m1 --scale row --exclude "*.bias"
      $ feather-ref pack model.safetensors -o small.safetensors --format nvfp4 --scale-rule nvfp4_te2026
      $ feather-ref pack model-f16.gguf -o model-q8.gguf --format q8_0
    """
    _check_output(output, force, source, as_json)
    rest = given({"order": order, **choices})
    if (plan_path is None) == (fmt is None):
        raise click.UsageError("give a --format or a --plan, not both" if fmt else "give a --format, or a --plan")
    selection = given({"include": include or None, "exclude": exclude or None})
    others = {**given({"scale": scale, "scale_rule": scale_rule}), **rest, **selection}
    if plan_path is not None and others:
        raise click.UsageError(f"--plan says it all; it goes with no other choice: {_spelled(others)}")
    _check_choices(fmt, choices)
    more = given({"byte_order": byte_order})
    with tensor_target(output, ".safetensors") as target, _progress() as progress:
        if plan_path is not None:
            lines = pack_planned(source, target, _plan(plan_path), progress, **more)
        elif fmt is not None:
            kind: Any = None if scale == "none" else scale
            lines = pack_file(source, target, fmt, kind, scale_rule, include, exclude, progress, **more, **rest)
    _show_lines(lines, output, as_json)


@cli.command()
@click.argument("source", metavar="IN", type=INPUT)
@click.option("-o", "--output", type=OUTPUT, required=True, help="An .npy, .npz, .safetensors or .gguf file; or -.")
@FORCE
@click.option("--dtype", type=click.Choice(FLOAT_NAMES), help="Default: float32 where that holds every value.")
@BYTE_ORDER
@_patterns
@JSON
def unpack(
    source: Path,
    output: Path,
    force: bool,
    dtype: Any,
    byte_order: Any,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
) -> None:
    """Unpack the packed tensors of a file.

    The others are copied. An .npy file holds one tensor: choose it with --include. To stdout goes an
    .npy file, which `diff` takes as "-". SQNR bits are told by `pack` alone.

    \b
    Examples:
      $ feather-ref unpack small.safetensors -o back.safetensors
      $ feather-ref unpack small.safetensors -o back.npz --dtype float64
      $ feather-ref unpack small.safetensors -o weight.npy --include layer.weight
    """
    _check_output(output, force, source, as_json)
    more = given({"byte_order": byte_order})
    with tensor_target(output, ".npy") as target, _progress() as progress:
        lines = unpack_file(source, target, dtype, include, exclude, progress, **more)
    _show_lines(lines, output, as_json)
    if target.suffix.lower() in (".npy", ".npz"):
        with load(source) as tensors:
            lost = [key for key in tensors.metadata if not key.startswith("feather_ref")]
        if lost:
            count = f"{len(lost)} line{'s' * (len(lost) > 1)}"
            click.echo(f"note: {target.suffix} has no place for metadata; {count} of it stayed behind", err=True)


def _plan(path: Path) -> Plan:
    """The plan of a file, which an error names."""
    try:
        return read_plan(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {str(error).removeprefix('plan: ')}") from None


def _check_output(output: Path, force: bool, source: Path, as_json: bool) -> None:
    """Whether a file of tensors may be written there."""
    check_free(force, source, output=output)
    if as_json and is_stdout(output):
        raise click.UsageError("--json and -o - both go to stdout; say -o FILE")


def _show_lines(lines: Sequence[Line], output: Path, as_json: bool) -> None:
    """What became of each tensor, and the sum."""
    if as_json:
        _show_json([{**dataclasses.asdict(line), "sqnr": _finite(line.sqnr)} for line in lines])
        return
    head = ("tensor", "shape", "from", "to", "bytes", "becomes", "scale", "SQNR bits", "note")
    before, after = sum(line.bytes_before for line in lines), sum(line.bytes_after for line in lines)
    total = f"{printable(str(output))}: {counted(len(lines), 'tensor')}, {before} bytes become {after}"
    if is_stdout(output):
        click.echo(total, err=True)
        return
    _show(head, [_line_cells(line) for line in lines])
    click.echo(total)


def _line_cells(line: Line) -> tuple[str, ...]:
    sqnr = "-" if line.sqnr is None else "exact" if line.sqnr == math.inf else f"{line.sqnr:.2f}"
    sizes = str(line.bytes_before), str(line.bytes_after)
    shape = str(list(line.shape))
    return printable(line.name), shape, line.before, line.after, *sizes, line.scale or "-", sqnr, line.note


@cli.command()
@click.argument("source", metavar="FILE", type=INPUT)
@JSON
def inspect(source: Path, as_json: bool) -> None:
    """Show what a file of tensors holds.

    The metadata, and of each tensor its shape, dtype, format, scale and bytes, the greatest finite
    magnitude, and how many numbers are NaN or Inf.

    \b
    Examples:
      $ feather-ref inspect small.safetensors
      $ feather-ref inspect small.safetensors --json
    """
    with load(source) as tensors:
        metadata, byte_order = tensors.metadata, tensors.byte_order
    with _progress() as progress:
        facts = inspect_file(source, progress)
    size = source.stat().st_size
    if as_json:
        rows = [dataclasses.asdict(fact) for fact in facts]
        facts_of_file = {"path": str(source), "bytes": size, "byte_order": byte_order, "metadata": metadata}
        _show_json({**facts_of_file, "tensors": rows})
        return
    click.echo(f"{printable(str(source))}: {size} bytes, {counted(len(facts), 'tensor')}")
    if byte_order == "big":
        click.echo("  byte order: big")
    for key, text in metadata.items():
        click.echo(f"  {printable(key)}: {printable(_shortened(text))}")
    head = ("tensor", "shape", "dtype", "format", "scale", "bytes", "amax", "NaN", "Inf")
    _show(head, [_fact_cells(fact) for fact in facts])


def _shortened(text: str) -> str:
    """A line of metadata; a vocabulary has millions of characters."""
    return text if len(text) <= _LONG else f"{text[:_LONG]}... ({len(text)} characters)"


def _fact_cells(fact: Any) -> tuple[str, ...]:
    amax = "-" if fact.amax is None else f"{fact.amax:.6g}"
    names = printable(fact.name), str(list(fact.shape)), fact.dtype, fact.format or "-", fact.scale or "-"
    return *names, str(fact.nbytes), amax, str(fact.nan), str(fact.inf)


for _command in (_cli_allocate.allocate, *_cli_conform.COMMANDS, _cli_export.export, _cli_explore.explore):
    cli.add_command(_command)


def main() -> None:
    """The entry point: click's, for any terminal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot print
    with orderly():
        cli(prog_name="feather-ref", windows_expand_args=False)
