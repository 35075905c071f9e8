// Replaces the hdf5_*.cc files in builds without HDF5.
#ifndef CREMA_HAVE_HDF5

#include "core/error.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"

namespace crema {
namespace {

[[noreturn]] void FailWithout(const std::string& path) {
  Fail(ErrorCode::kUnsupported,
       "is an HDF5 file, and this build has no HDF5: build with -DCREMA_HDF5=ON, or use "
       "snapshot_format: BINARYPROTO",
       {.file = path});
}

}  // namespace

NetParameter ReadHdf5Caffemodel(const std::string& path) { FailWithout(path); }
SolverState ReadHdf5SolverState(const std::string& path) { FailWithout(path); }
void WriteCaffemodelHdf5(const NetParameter&, const std::string& path) { FailWithout(path); }
void WriteSolverStateHdf5(const SolverState&, const std::string& path) { FailWithout(path); }

}  // namespace crema

#endif  // CREMA_HAVE_HDF5
