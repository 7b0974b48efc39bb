// Judge e4m3_encode by a .run file:  vvp -n judge +file=FILE.run
//
// Tried are both ends and the middle of every run, and both infinities.  A wrong result, an unknown bit or a damaged file ends in $fatal.
module judge_tb #(
    parameter SATURATE = 1
);
  reg  [31:0] in;
  wire [7:0]  got;
  e4m3_encode #(.SATURATE(SATURATE)) encoder (.in(in), .out(got));

  reg [8*1024-1:0] path;
  reg [31:0] lo, hi, z, next;
  integer file, j, k, lines, wrong;
  reg passes, skip;

  initial begin
    next = 0; lines = 0; wrong = 0;
    if (!$value$plusargs("file=%s", path)) $fatal(1, "say +file=FILE.run");
    file = $fopen(path, "r");
    if (file == 0) $fatal(1, "no such file");
    while ($fscanf(file, "%h %h %h %h", lo, hi, z, j) == 4) begin
      if (lo !== next || hi < lo) $fatal(1, "line %0d: a gap, the file is damaged", lines + 1);
      next  = hi + 1;  // 0 after the last of the 2^32 inputs
      lines = lines + 1;
      for (k = 0; k < 5; k = k + 1) begin
        in = k == 0 ? lo : k == 1 ? lo + (hi - lo) / 2 : k == 2 ? hi : k == 3 ? 32'h7F800000 : 32'hFF800000;
        skip = in < lo || in > hi;  // infinity, for which an encoder has a path of its own
        #1;
        case (j)
          0: passes = 1;                                  // the standard says nothing
          1: passes = got === z[7:0];                     // these bits
          2: passes = got[6:0] === 7'h7F;                 // any NaN
          3: passes = got === z[7:0] || got === z[7:0] + 8'd1;
          default: $fatal(1, "line %0d: no judge digit, the file is damaged", lines);
        endcase
        if (!skip && !passes) begin
          wrong = wrong + 1;
          $display("in=%h got=%h want=%h", in, got, z[7:0]);
        end
      end
    end
    $fclose(file);
    if (lines == 0 || next !== 0) $fatal(1, "the file ends early");
    $display("%0d lines, %0d wrong", lines, wrong);
    if (wrong != 0) $fatal(1, "the encoder is wrong");
    $finish;
  end
endmodule
