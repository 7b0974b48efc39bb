"""The bit explorer in a real browser: every code of every format, by keyboard, and at the width of a phone."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import explorer
from feather_ref.codes import CLASSES, classify

ERROR = 0xFFFF  # what the page's `null` is sent as
ROWS = {row.name: row for _, row in explorer.formats()}
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs chromium and chromedriver")
        pytest.skip("needs chromium and chromedriver")
    folder = tmp_path_factory.mktemp("explorer")
    (folder / "explorer.html").write_text(explorer.page(), encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    driver.base = (folder / "explorer.html").as_uri()
    yield driver
    complaints = driver.get_log("browser")
    driver.quit()
    assert complaints == []


@pytest.fixture
def page(browser: Any) -> Any:
    browser.set_window_size(1000, 900)
    browser.get("about:blank")
    browser.get(browser.base)
    return browser


def text(page: Any, name: str) -> str:
    return str(page.find_element("id", name).text)


def enter(page: Any, name: str, value: str) -> None:
    box = page.find_element("id", name)
    box.clear()
    box.send_keys(value)


# --- against the reference --------------------------------------------------------------------


def inputs(row: fr.Format) -> np.ndarray:
    """float32 bits: every value, every midpoint, one step either side, both signs, and the ends of float32."""
    values = fr.decode(np.arange(1 << row.bits), row, np.float64)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    past = [] if row.kind == "table" else [float(row.exact(row.max_magnitude + i)) for i in (1, 2)]
    steps = np.unique([*finite, *past])
    points = np.concatenate([steps, (steps[1:] + steps[:-1]) / 2, [0.0, 3e38, 1e-45, 2.0**-126]])
    with np.errstate(over="ignore"):
        bits = points.astype(np.float32).view(np.uint32).astype(np.int64)
    around = np.unique(np.clip(np.concatenate([bits - 1, bits, bits + 1]), 0, 0x7F800000))
    special = [0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF]
    return np.unique(np.concatenate([around, special, around + (1 << 31), np.add(special, 1 << 31)])).astype(np.uint32)


def combinations(row: fr.Format) -> Iterator[tuple[str, dict[str, str]]]:
    """Rounding and choices: every rounding with every overflow, then the others one by one."""
    about = explorer.describe("", row)
    own = {**about["default"], "subnormals": "keep"}
    others = {"nan": about["nan"], "negative": about["negative"], "subnormals": fr.SUBNORMALS}
    named = row.name in fr.FORMATS  # the other 183 rows take the same ways: fewer of them
    for rounding in about["roundings"]:
        overflows = about["beyond"] if named or rounding == "nearest_even" else [own["overflow"]]
        yield from ((rounding, {**own, "overflow": overflow}) for overflow in overflows)
        if named or rounding == "to_odd":
            yield from ((rounding, {**own, name: value}) for name, values in others.items() for value in values)


def expected(row: fr.Format, bits: np.ndarray, rounding: str, choices: dict[str, str]) -> np.ndarray:
    """The codes by the reference; ERROR where the policy makes the input one."""
    x, policies = bits.view(np.float32), {**choices, "rounding": rounding}
    if choices["nan"] == "error":
        policies["nan"] = "zero"
    if choices["negative"] == "error":
        policies["negative"] = "zero"
    out = fr.encode(x, row, **policies).astype(np.uint16)  # type: ignore[arg-type]
    if choices["nan"] == "error":
        out[np.isnan(x)] = ERROR
    if choices["negative"] == "error" and not row.signed:
        flushed = (choices["subnormals"] == "flush_input") & (np.abs(x) < np.float32(2.0**-126))
        out[(x < 0) & ~flushed] = ERROR
    return out


SWEEP = """
const [name, bits, combinations] = arguments, row = explorer.BY_NAME.get(name);
const out = new Uint16Array(bits.length * combinations.length);
combinations.forEach(([rounding, choices], i) => bits.forEach((pattern, j) => {
  out[i * bits.length + j] = explorer.encode(row, pattern, rounding, choices).code ?? 0xFFFF;
}));
const bytes = new Uint8Array(out.buffer);
let text = "";
for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
return btoa(text);
"""


def test_every_format_under_every_policy(page: Any) -> None:
    page.set_script_timeout(120)
    for name, row in ROWS.items():
        bits, asked = inputs(row), list(combinations(row))
        answer = page.execute_script(SWEEP, name, bits.tolist(), asked)
        got = np.frombuffer(base64.b64decode(answer), "<u2").reshape(len(asked), len(bits))
        for codes, (rounding, choices) in zip(got, asked, strict=True):
            want = expected(row, bits, rounding, choices)
            wrong = np.flatnonzero(codes != want)
            where = f"{name} {rounding} {choices}: {len(wrong)} of {len(bits)}"
            assert not len(wrong), f"{where}, {bits[wrong[0]]:08X} got {codes[wrong[0]]:X} want {want[wrong[0]]:X}"


def test_every_code_of_every_format(page: Any) -> None:
    known = page.execute_script(  # the way back from the browser loses the sign of zero
        "return explorer.TABLES.formats.map((row) => "
        "[row.name, row.values.map((v) => Object.is(v, -0) ? '-0' : v), row.classes])"
    )
    assert [name for name, *_ in known] == list(ROWS)
    for name, values, classes in known:
        codes = np.arange(1 << ROWS[name].bits)
        want = fr.decode(codes, ROWS[name], np.float64)
        got = np.array([float(value) for value in values])
        real = ~np.isnan(want)
        assert (got.view(np.uint64) == want.view(np.uint64))[real].all() and np.isnan(got[~real]).all()
        assert [int(c) for c in classes] == classify(codes, ROWS[name]).tolist()


def test_named_formats_are_all_there() -> None:
    assert {row.name for row in fr.FORMATS.values() if row.bits <= 8} <= ROWS.keys()
    splits = {(row.exponent_bits, row.mantissa_bits) for group, row in explorer.formats() if group == "split"}
    assert splits == {(e, m) for e in range(1, 8) for m in range(8 - e) if e + m >= 2}


# --- by hand ----------------------------------------------------------------------------------


def test_a_click_on_a_bit(page: Any) -> None:
    assert text(page, "value") == "0.3125"
    page.find_element("css selector", "[data-bit='0']").click()
    assert (text(page, "value"), text(page, "class")) == ("0.34375", "+normal")
    page.execute_script("const box = document.getElementById('code'); box.value = '7F'; box.oninput()")
    assert (text(page, "value"), text(page, "class")) == ("NaN", "nan")


def test_a_number(page: Any) -> None:
    enter(page, "x", "464")
    rows = [row.text.split("\n")[0] for row in page.find_elements("css selector", "#roundings tr")]
    assert rows[0].startswith("nearest_even 7E 448 a tie: the even code")
    assert rows[3].startswith("toward_positive 7E 448 the greater number, overflow: saturate")
    assert "midpoint 464" in page.find_element("id", "line").text
    enter(page, "x", "0.3")
    marks = [span.get_attribute("class").split()[0] for span in page.find_elements("css selector", "#source span")]
    assert marks == ["sign"] + ["exponent"] * 8 + ["kept"] * 3 + ["guard"] + ["sticky"] * 19
    assert "3E99999A = 0.300000012" in text(page, "source-text")


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("nan", "7F"), ("-inf", "FE"), ("2^-9", "01"), ("1.5*2^8", "7C"), ("-1e-3", "81"), ("0x3F800000", "38"),
        (".5", "30"),
    ],
)  # fmt: skip
def test_ways_to_write_a_number(page: Any, typed: str, code: str) -> None:
    enter(page, "x", typed)
    assert page.find_element("css selector", "#roundings tr td:nth-child(2)").text == code


WRONG = [("x", "abc"), ("x", "0x12"), ("code", "100"), ("code", "zz"), ("lanes", "30 4g")]


@pytest.mark.parametrize(("box", "typed"), WRONG)
def test_what_cannot_be_read_is_said_and_changes_nothing(page: Any, box: str, typed: str) -> None:
    page.execute_script(f"const box = document.getElementById('{box}'); box.value = '{typed}'; box.oninput()")
    assert text(page, f"{box}-error") != ""
    assert page.current_url.split("#")[1] == "f=e4m3&c=2A&x=0.3&w=30-40-34-44"


def test_the_article_s_word(page: Any) -> None:
    enter(page, "lanes", "30 40 34 44")
    shown = text(page, "words")
    assert "44344030" in shown and "30403444" in shown
    page.get(page.base + "#f=e2m1&w=1-2-3-4-5-6-7-f")
    assert "F7654321" in text(page, "words") and "1234567F" in text(page, "words")


def test_another_format_keeps_the_numbers(page: Any) -> None:
    page.execute_script("const f = document.getElementById('format'); f.value = 'e2m1'; f.onchange()")
    assert page.find_element("id", "lanes").get_attribute("value") == "1 4 2 5 0 0 0 0"  # 0.5, 2, 0.75 to 1, 3
    assert text(page, "value") == "0.5" and page.find_element("id", "special").get_attribute("value") == "finite"
    page.execute_script("const f = document.getElementById('format'); f.value = 'nf4'; f.onchange()")
    assert text(page, "e-text") == "\u2013"


def test_sliders_and_special_codes(page: Any) -> None:
    page.find_element("id", "e").send_keys("\ue014")  # one step to the right
    assert page.execute_script("return document.getElementById('m').value") == "2"
    assert page.find_element("css selector", "#about").text.endswith("8 bits, bias 15")
    assert page.find_element("id", "special").get_attribute("value") == "NaN"
    assert page.find_element("id", "lanes").get_attribute("value") == "38 40 3A 42"  # the numbers stay
    roles = [bit.get_attribute("class").split()[1] for bit in page.find_elements("css selector", ".bit")]
    assert roles == ["sign"] + ["exponent"] * 5 + ["mantissa"] * 2


def test_the_address_carries_everything(page: Any) -> None:
    address = "#f=e5m2&c=7C&x=61440&o=nonsaturating&n=preserve_sign&s=flush_output&w=3c-bc"
    page.get("about:blank")
    page.get(page.base + address)
    assert text(page, "value") == "Inf"
    names = ("overflow", "nan", "subnormals", "x", "lanes")
    chosen = [page.find_element("id", name).get_attribute("value") for name in names]
    assert chosen == ["nonsaturating", "preserve_sign", "flush_output", "61440", "3C BC 00 00"]
    assert page.current_url.endswith(address)
    page.get("about:blank")
    page.get(page.base + "#f=nothing&c=zz&x=<b>&w=-1-fff")
    assert text(page, "value") == "0.3125"


def test_the_keyboard_alone(page: Any) -> None:
    actions = pytest.importorskip("selenium.webdriver").ActionChains

    def press(key: str) -> str:
        actions(page).send_keys(key).perform()
        focused = page.switch_to.active_element
        return str(focused.get_attribute("id") or focused.get_attribute("data-bit") or "")

    order = []
    while (name := press("\ue004")) != "7":  # tab, up to the sign bit
        order.append(name)
    assert order == ["format", "e", "m", "special"]
    press(" ")
    assert text(page, "value") == "-0.3125"
    assert press("\ue014") == "6"  # the arrow goes to the next bit
    press(" ")
    assert text(page, "value") == "-80"
    order = [press("\ue004") for _ in range(22)]
    wanted = ["5", "0", "code", "down", "up", "x", "overflow", "nan", "subnormals", "lanes"]
    assert [name for name in order if name in wanted] == wanted


def test_a_phone(page: Any) -> None:
    phone = {"width": 375, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        page.get(page.base + "#f=e3m4&c=15")
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
        tops = {button.location["y"] for button in page.find_elements("css selector", ".bit")}
        assert len(tops) == 1
        page.find_element("css selector", "[data-bit='0']").click()
        assert page.find_element("id", "code").get_attribute("value") == "14"
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_comes_from_elsewhere(page: Any) -> None:
    names = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in names if not name.startswith("data:")] == []


def test_the_committed_page_is_what_the_table_of_formats_gives() -> None:
    committed = Path(__file__).parents[2] / "docs" / "explorer.html"
    same = committed.read_text(encoding="utf-8") == explorer.page()
    assert same, "docs/explorer.html is old: run `feather-ref explore --force -o docs/explorer.html`"


def test_classes_have_one_digit() -> None:
    assert len(CLASSES) <= 10
