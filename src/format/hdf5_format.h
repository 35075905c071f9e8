// The seam to HDF5: in the hdf5_*.cc files, or in no_h5.cc, which refuses, for builds without it.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

NetParameter ReadHdf5Caffemodel(const std::string& path);
SolverState ReadHdf5SolverState(const std::string& path);
// WriteCaffemodelHdf5 and WriteSolverStateHdf5 are declared in caffemodel.h and solver_state.h.

}  // namespace crema
