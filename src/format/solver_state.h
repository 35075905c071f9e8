// Reads and writes solver snapshots, without the weights.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// Reads a state of Caffe or Crema, binary or HDF5 (detected by its contents). Throws kNotFound,
// kDataLoss for a file that is damaged, truncated or not a state, kUnsupported for HDF5 in a build
// without it.
SolverState ReadSolverState(const std::string& path);

// Does the same for HDF5 alone.
SolverState ReadHdf5SolverState(const std::string& path);

// Writes binary with our checksum, atomically. Throws kIoFailure, or kUnsupported above 2 GiB.
void WriteSolverState(const SolverState& state, const std::string& path);

// Writes HDF5 in Caffe's layout; fields that Caffe lacks go to the additional dataset "crema".
void WriteSolverStateHdf5(const SolverState& state, const std::string& path);

}  // namespace crema
