"""The command line as tests call it.

`run` gives the result, `apart` with its two streams, `ok` the output, `refused` the one line of an error.
"""

from __future__ import annotations

from click.testing import CliRunner, Result

from feather_ref.cli import cli


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin, prog_name="feather-ref")


def ok(*arguments: str, stdin: str | bytes | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def apart(*arguments: str) -> Result:
    """The result with stdout and stderr each for itself, which click 8.1 has to be asked for."""
    try:
        runner = CliRunner(mix_stderr=False)  # type: ignore[call-arg]
    except TypeError:
        runner = CliRunner()
    return runner.invoke(cli, arguments, prog_name="feather-ref")


def refused(*arguments: str, stdin: str | None = None) -> str:
    """The one line that says what is wrong."""
    result = run(*arguments, stdin=stdin)
    assert isinstance(result.exception, SystemExit), (arguments, result.exception)
    assert result.exit_code == 2
    *usage, line = result.output.strip().splitlines()
    assert line.startswith("Error: "), result.output
    assert usage == [] or usage[0].startswith("Usage: feather-ref ")
    return line.removeprefix("Error: ")
