// Damaged HDF5 files on which the HDF5 library ends the process.
#pragma once

#include <string>

namespace crema {

// Lets a child process open everything that is in the file first: release 1.10 of the library
// follows damaged addresses and crashes. Throws kDataLoss where the child crashed, or took longer
// than 20 s. Whatever else is wrong is found by those who read the file. Requires: the calling
// thread has no Hdf5Session. Thread safety: any.
void ProbeHdf5(const std::string& path);

}  // namespace crema
