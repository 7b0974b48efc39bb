"""The process that calls a C function for `check --library`: records on stdin, results on stdout.

    python c_process.py PATH SYMBOL INPUT_BYTES RESULT_BYTES

It needs no package, so that it starts quickly; it may die without harm.  What the function prints
goes to stderr, so that it is no result.

Source: design of this project.
"""

import ctypes
import os
import sys

RECORDS = 1 << 16
FILL = b"\xa5"  # a result that is not written is not by chance a zero
GUARD = 64  # bytes behind the results that stay as they are


def main(path: str, symbol: str, input_bytes: int, result_bytes: int) -> None:
    """Call the function for every block of stdin."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = ctypes.CDLL(path)[symbol]
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = None
    while block := sys.stdin.buffer.read(input_bytes * RECORDS):
        count = len(block) // input_bytes
        size = count * result_bytes
        out = ctypes.create_string_buffer(FILL * (size + GUARD), size + GUARD)
        function(ctypes.create_string_buffer(block, len(block)), out, count)
        if out.raw[size:] != FILL * GUARD:
            sys.exit(f"{symbol} writes beyond its {count} results")
        results.write(out.raw[:size])
        results.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
