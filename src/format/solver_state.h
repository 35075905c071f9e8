// Snapshots of a solver, besides the weights.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// A state of Caffe or of ours, binary or (told by its contents) HDF5. Throws kNotFound, kDataLoss
// for what is damaged, cut short or no state, kUnsupported for HDF5 in a build without it.
SolverState ReadSolverState(const std::string& path);

// Binary, with our checksum, atomically. Throws kIoFailure, or kUnsupported above 2 GiB.
void WriteSolverState(const SolverState& state, const std::string& path);

// HDF5 in Caffe's layout; what Caffe does not have is in one more data set, "crema".
void WriteSolverStateHdf5(const SolverState& state, const std::string& path);

}  // namespace crema
