// Detects damaged HDF5 files that crash the HDF5 library.
#pragma once

#include <string>

namespace crema {

// Opens everything in the file in a child process first: release 1.10 of the library follows
// damaged addresses and crashes. Throws kDataLoss if the child crashes or takes longer than 20 s.
// Leaves other faults to the reader. Requires: the calling thread has no Hdf5Session. Thread
// safety: any.
void ProbeHdf5(const std::string& path);

}  // namespace crema
