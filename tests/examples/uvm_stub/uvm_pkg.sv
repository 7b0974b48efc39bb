// A stub of the UVM classes and macros that examples/uvm uses, so that a linter can read it.  Nothing runs on it.
package uvm_pkg;
  typedef enum int {UVM_LOW = 100} uvm_verbosity;

  class uvm_phase;
  endclass

  class uvm_object;
    function new(string name = "");
    endfunction
  endclass

  class uvm_sequence_item extends uvm_object;
    function new(string name = "");
      super.new(name);
    endfunction
  endclass

  class uvm_component extends uvm_object;
    function new(string name, uvm_component parent);
      super.new(name);
    endfunction
    virtual function void check_phase(uvm_phase phase);
    endfunction
    virtual function void report_phase(uvm_phase phase);
    endfunction
  endclass

  class uvm_scoreboard extends uvm_component;
    function new(string name, uvm_component parent);
      super.new(name, parent);
    endfunction
  endclass

  class uvm_analysis_imp #(type T = int, type IMP = int);
    function new(string name, IMP imp);
    endfunction
  endclass
endpackage
