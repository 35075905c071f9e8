// The log of the module.
#pragma once

#include "core/log.h"

namespace crema::python {

// Writes to stderr what SetLogLevel lets through. Thread safety: any number of
// threads.
LogSink& Log();
// 0: all; 1: warnings and errors (the default); 2: errors.
void SetLogLevel(int level);

}  // namespace crema::python
