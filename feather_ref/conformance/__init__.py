"""conformance: judge anybody's converter against the golden vectors.

    from feather_ref import conformance
    print(conformance.check(my_encoder, "e4m3"))

`check` calls a Python function; `library` makes one of a C function; `suite` hands out inputs and
judges results, for whatever runs elsewhere.  The commands `feather-ref gen`, `check` and `conform`
do the same for programs and for libraries.

Source: design of this project; the vectors name their standards.
"""

from __future__ import annotations

from feather_ref.conformance.block_suite import BlockSuite
from feather_ref.conformance.c_library import Library, library
from feather_ref.conformance.checking import Result, check
from feather_ref.conformance.judge import Suite, suite, suites
from feather_ref.conformance.report import Report
from feather_ref.conformance.scales import RuleVerdict, fingerprint_scales
from feather_ref.conformance.tally import Batch
from feather_ref.golden import CorruptError

__all__ = [
    "Batch",
    "BlockSuite",
    "CorruptError",
    "Library",
    "Report",
    "Result",
    "RuleVerdict",
    "Suite",
    "check",
    "fingerprint_scales",
    "library",
    "suite",
    "suites",
]
