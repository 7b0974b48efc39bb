"""The process that calls a C function for the judge: records on stdin, results on stdout.

    python c_process.py PATH SYMBOL INPUT_BYTES RESULT_BYTES
    python c_process.py PATH SYMBOL INPUT_BYTES RESULT_BYTES calls

Without the last word all of stdin is one list of records.  With it every call begins with the number of its
records, 8 bytes in this machine's order, and has its results before the next one begins.

It needs no package, so that it starts quickly; it may die without harm.  What the function prints
goes to stderr, so that it is no result.

Source: design of this project.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from io import BufferedReader

RECORDS = 1 << 16
FILL = b"\xa5"  # a result that is not written is not by chance a zero
GUARD = 64  # bytes behind the results that stay as they are


def main(path: str, symbol: str, input_bytes: int, result_bytes: int, calls: bool) -> None:
    """Call the function for every block of stdin."""
    given, results = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = ctypes.CDLL(path)[symbol]
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = None
    for block in blocks(given, input_bytes, calls):
        count = len(block) // input_bytes
        size = count * result_bytes
        out = bytearray(FILL * (size + GUARD))
        function((ctypes.c_char * len(block)).from_buffer(block), (ctypes.c_char * len(out)).from_buffer(out), count)
        if out[size:] != FILL * GUARD:
            sys.exit(f"{symbol} writes beyond its {count} results")
        results.write(memoryview(out)[:size])
        results.flush()


def blocks(given: BufferedReader, input_bytes: int, calls: bool) -> Iterator[bytearray]:
    """The records of each call."""
    while header := given.read(8 if calls else input_bytes * RECORDS):
        block = bytearray(input_bytes * int.from_bytes(header, sys.byteorder)) if calls else bytearray(header)
        if calls and given.readinto(block) < len(block):
            return  # the judge has ended
        yield block


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:] == ["calls"])
