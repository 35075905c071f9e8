// Interface to HDF5, implemented by hdf5_*.cc, or by no_h5.cc, which throws, in builds without it.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

NetParameter ReadHdf5Caffemodel(const std::string& path);
SolverState ReadHdf5SolverState(const std::string& path);
// caffemodel.h and solver_state.h declare WriteCaffemodelHdf5 and WriteSolverStateHdf5.

}  // namespace crema
