//! Judge an E4M3 encoder by a .run file: ./judge FILE
//!
//! Tried are both ends and the middle of every run, and both infinities.  Exit code 0: all right.  1: some are wrong.
//! 2: no such file.  3: damaged, or nothing in it.

use std::process::exit;

/// float32 bits to a code of E4M3, round to nearest, ties to even.
///
/// in   | sign 31 | exponent 30..23 | fraction 22..0 |
/// out  | sign 7  | exponent 6..3   | mantissa 2..0  |   bias 7, greatest 7E = 448, NaN 7F and FF
fn encode(x: u32, saturate: bool) -> u8 {
    // 1. Fields.  2^-6, the least normal of E4M3, has the exponent field 121.
    let (sign, exponent, fraction) = (x >> 31, x >> 23 & 0xFF, x & 0x7F_FFFF);
    let significand = if exponent == 0 { fraction } else { fraction | 0x80_0000 };
    if exponent == 0xFF && fraction != 0 {
        return (sign << 7 | 0x7F) as u8;
    }
    // 2. A normal number drops 20 bits, and one more for each power of two below; 25 drop all.
    let drop = 20 + 121u32.saturating_sub(exponent).min(5);
    // 3. Round.  A carry makes 16 of 15, which step 4 adds to the exponent.
    let (kept, rest, half) = (significand >> drop, significand & ((1 << drop) - 1), 1 << (drop - 1));
    let up = if cfg!(fault) {
        rest >= half // ties go away from zero
    } else {
        rest > half || (rest == half && kept & 1 == 1)
    };
    // 4. The magnitude: 8 codes a binade.  Only now compare with the greatest.
    let magnitude = kept + u32::from(up) + (exponent.saturating_sub(121) << 3);
    let greatest = if saturate { 0x7E } else { 0x7F };
    (sign << 7 | if magnitude > 0x7E { greatest } else { magnitude }) as u8
}

const SHOWN: u32 = 10; // failures that are printed

fn passes(got: u8, z: u32, j: u32) -> bool {
    match j {
        0 => true,                                          // the standard says nothing
        1 => u32::from(got) == z,                           // these bits
        2 => got & 0x7F == 0x7F,                            // any NaN
        _ => u32::from(got) == z || u32::from(got) == z + 1, // either neighbour
    }
}

/// lo, hi, z, j of a line; None for what is no line of a run file.
fn parse(line: &str) -> Option<[u32; 4]> {
    let fields: Result<Vec<u32>, _> = line.split_whitespace().map(|field| u32::from_str_radix(field, 16)).collect();
    fields.ok()?.try_into().ok()
}

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: judge FILE.run");
        exit(2)
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        eprintln!("{path}: {error}");
        exit(2)
    });
    let saturate = !path.contains(".nonsat."); // what a file means is in its name
    let (mut next, mut tried, mut wrong) = (0u64, 0, 0);
    for line in text.lines() {
        let [lo, hi, z, j] = match parse(line) {
            Some(run) if u64::from(run[0]) == next && run[1] >= run[0] && run[3] <= 3 => run,
            _ => break, // a gap, or no line of a run file
        };
        next = u64::from(hi) + 1;
        // an encoder has a path of its own for infinity
        let infinities = [0x7F80_0000, 0xFF80_0000].into_iter().filter(|x| (lo..=hi).contains(x));
        for x in [lo, lo + (hi - lo) / 2, hi].into_iter().chain(infinities) {
            let got = encode(x, saturate);
            tried += 1;
            if !passes(got, z, j) {
                wrong += 1;
                if wrong <= SHOWN {
                    println!("in={x:08X} got={got:02X} want={z:02X}");
                }
            }
        }
    }
    println!("{tried} inputs, {wrong} wrong");
    exit(if next != 1 << 32 { 3 } else { i32::from(wrong != 0) });
}
