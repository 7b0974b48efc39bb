// A UVM scoreboard for an E4M3 encoder, judged by the exported C headers.
//
// Connect the monitor's analysis port to `observed`; set `saturate` from the environment.  Unknown bits are wrong.
// Drive both ends and the middle of every run of the vector, and both infinities: random inputs miss them.
package e4m3_scoreboard_pkg;

  import uvm_pkg::*;
  `include "uvm_macros.svh"

  import "DPI-C" function int convert_f32_e4m3_rne_sat_dpi(input int unsigned in, input int unsigned out);
  import "DPI-C" function int convert_f32_e4m3_rne_nonsat_dpi(input int unsigned in, input int unsigned out);

  // One conversion that the monitor saw.
  class e4m3_item extends uvm_sequence_item;
    `uvm_object_utils(e4m3_item)
    logic [31:0] in;
    logic [7:0]  out;

    function new(string name = "e4m3_item");
      super.new(name);
    endfunction
  endclass

  class e4m3_scoreboard extends uvm_scoreboard;
    `uvm_component_utils(e4m3_scoreboard)
    uvm_analysis_imp #(e4m3_item, e4m3_scoreboard) observed;
    bit saturate = 1;
    int unsigned seen, wrong;
    bit infinity[2];  // whether +Inf and -Inf were seen: an encoder has a path of its own for them

    function new(string name, uvm_component parent);
      super.new(name, parent);
      observed = new("observed", this);
    endfunction

    function bit passes(e4m3_item item);
      if ($isunknown(item.in) || $isunknown(item.out)) return 0;
      if (saturate) return convert_f32_e4m3_rne_sat_dpi(item.in, 32'(item.out)) != 0;
      return convert_f32_e4m3_rne_nonsat_dpi(item.in, 32'(item.out)) != 0;
    endfunction

    virtual function void write(e4m3_item item);
      seen++;
      if (item.in[30:0] == 31'h7F800000) infinity[item.in[31]] = 1;
      if (!passes(item)) begin
        wrong++;
        `uvm_error("E4M3", $sformatf("in=%h got=%h", item.in, item.out))
      end
    endfunction

    virtual function void check_phase(uvm_phase phase);
      super.check_phase(phase);
      if (seen == 0) `uvm_error("E4M3", "nothing was seen")
      if (!infinity[0] || !infinity[1]) `uvm_error("E4M3", "7F800000 and FF800000 were not both seen")
    endfunction

    virtual function void report_phase(uvm_phase phase);
      super.report_phase(phase);
      `uvm_info("E4M3", $sformatf("%0d conversions, %0d wrong", seen, wrong), UVM_LOW)
    endfunction
  endclass

endpackage
