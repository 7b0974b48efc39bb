"""Build verilog/e4m3_encode.v and run encoder_test.py on it: python run.py [FAULT_1]

Exit code 0: all right.  1: something is wrong.
"""

import sys
from pathlib import Path

from cocotb_tools.runner import get_results, get_runner

HERE = Path(__file__).resolve().parent


def main(faults):
    """Judge both parametrisations of the encoder; the number of tests that failed."""
    failed = 0
    for overflow, saturate in (("sat", 1), ("nonsat", 0)):
        runner = get_runner("icarus")
        build = HERE / "build" / overflow
        runner.build(
            sources=[HERE.parent / "verilog" / "e4m3_encode.v"],
            hdl_toplevel="e4m3_encode",
            parameters={"SATURATE": saturate},
            defines=dict.fromkeys(faults, 1),
            timescale=("1ns", "1ps"),
            build_dir=build,
            always=True,
        )
        results = runner.test(
            hdl_toplevel="e4m3_encode",
            test_module="encoder_test",
            test_dir=HERE,
            build_dir=build,
            results_xml=str(build / "results.xml"),
            extra_env={"VECTOR": f"convert.f32.e4m3.rne.{overflow}.run"},
        )
        count, bad = get_results(results)
        failed += bad if count else 1  # no test that ran is a failure
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) != 0)
