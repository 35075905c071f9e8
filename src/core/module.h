// Modules: shared libraries of Crema that are loaded on first use, so that their dependencies do
// not slow down start-up.
#pragma once

namespace crema {

// Returns the address of `symbol` in the library `file` ("libcrema_images.so"), found by the
// system's rules: run path of the program, LD_LIBRARY_PATH and so on. The library stays loaded.
// Throws kUnsupported with the system's message and the remedy. Thread safety: any number of
// threads.
void* SymbolOfModule(const char* file, const char* symbol);

}  // namespace crema
