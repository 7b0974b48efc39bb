// float32 to E4M3 (OFP8), round to nearest, ties to even.  Combinational.
//
//   in   | sign 31 | exponent 30..23 | fraction 22..0 |
//   out  | sign 7  | exponent 6..3   | mantissa 2..0  |   bias 7, greatest 7E = 448, NaN 7F and FF
//
// SATURATE = 1: what is too big, and infinity, becomes 448.  SATURATE = 0: it becomes NaN.
// FAULT_1, FAULT_2, FAULT_3 put a bug in, so that a judge can be seen to find it.
module e4m3_encode #(
    parameter SATURATE = 1
) (
    input  wire [31:0] in,
    output wire [7:0]  out
);

  // 1. Fields.  2^-6, the least normal of E4M3, has the exponent field 121.
  wire        sign     = in[31];
  wire [7:0]  exponent = in[30:23];
  wire [23:0] significand = {exponent != 0, in[22:0]};
  wire        is_nan   = exponent == 8'hFF && in[22:0] != 0;
  wire        normal   = exponent >= 121;

  // 2. A normal number drops 20 bits, and one more for each power of two below; 5 more drop all.
  wire [7:0]  below = normal ? 8'd0 : 8'd121 - exponent;
  wire [2:0]  more  = below > 5 ? 3'd5 : below[2:0];

  // 3. Split: what stays, the first bit that goes, and whether any other goes.
  wire [28:0] split  = {significand, 5'd0} >> more;
  wire [3:0]  kept   = split[28:25];
  wire        guard  = split[24];
`ifdef FAULT_2
  wire        sticky = 1'b0;                      // a tie is seen where there is none
`else
  wire        sticky = split[23:0] != 0;
`endif

  // 4. Round.  A carry makes 16 of 15, which step 5 adds to the exponent.
`ifdef FAULT_1
  wire        up = guard;                         // ties go away from zero
`else
  wire        up = guard && (sticky || kept[0]);
`endif
  wire [4:0]  rounded = {1'b0, kept} + {4'd0, up};

  // 5. The magnitude: 8 codes a binade.  The hidden bit is the 8 that makes field 0 into field 1.
  wire [10:0] binade    = normal ? {exponent - 8'd121, 3'd0} : 11'd0;
`ifdef FAULT_3
  wire [10:0] magnitude = binade + {7'd0, rounded[3:0]};   // the carry is lost
`else
  wire [10:0] magnitude = binade + {6'd0, rounded};
`endif

  // 6. Only now compare with the greatest: 464 has become 448, and is no overflow.
  wire        too_big = magnitude > 11'h07E;
  wire [6:0]  finite  = too_big ? (SATURATE != 0 ? 7'h7E : 7'h7F) : magnitude[6:0];
  assign out = {sign, is_nan ? 7'h7F : finite};

endmodule
