/* The one C file that holds the DPI-C functions of the exported headers. */
#define FEATHER_DPI
#include "build/nonsat.h"
#include "build/sat.h"
