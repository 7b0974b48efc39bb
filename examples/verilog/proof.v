// The encoder beside the exported assertions: what the proof is about.
module proof (
    input wire [31:0] in
);
  wire [7:0] out_sat, out_nonsat;
  e4m3_encode #(.SATURATE(1)) saturating (.in(in), .out(out_sat));
  e4m3_encode #(.SATURATE(0)) nonsaturating (.in(in), .out(out_nonsat));
  convert_f32_e4m3_rne_sat_check    judge_sat    (.in(in), .out(out_sat), .clk(1'b0));
  convert_f32_e4m3_rne_nonsat_check judge_nonsat (.in(in), .out(out_nonsat), .clk(1'b0));
endmodule
