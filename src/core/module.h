// Parts of Crema in shared libraries of their own, loaded when they are needed first: what they
// link would cost every start of every command.
#pragma once

namespace crema {

// The address of `symbol` in the library `file` ("libcrema_images.so"), found as the system finds
// libraries: by the run path of the program, LD_LIBRARY_PATH and so on. It stays loaded. Throws
// kUnsupported with the system's words, and what to do. Thread safety: any number of threads.
void* SymbolOfModule(const char* file, const char* symbol);

}  // namespace crema
