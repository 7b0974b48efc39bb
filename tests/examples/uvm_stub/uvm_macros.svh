// See uvm_pkg.sv.
`define uvm_object_utils(T)
`define uvm_component_utils(T)
`define uvm_error(ID, TEXT) $error("%s: %s", ID, TEXT);
`define uvm_info(ID, TEXT, LEVEL) if (LEVEL <= 100) $display("%s: %s", ID, TEXT);
