#include "solvers/snapshot.h"

#include <zlib.h>

#include <filesystem>
#include <utility>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/solver_state.h"

namespace crema {
namespace {

uint32_t ChecksumOf(const Plan& plan, const Weights& weights) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (size_t s = 0; s < plan.learned.size(); ++s) {
    if (plan.learned[s].owner != static_cast<int>(s)) continue;
    const ConstTensorView blob = weights.blob(s);
    crc = crc32_z(crc, static_cast<const Bytef*>(blob.raw()), blob.bytes());
  }
  return static_cast<uint32_t>(crc);
}

bool IsHdf5(const SolverParameter& param) {
  return param.snapshot_format() == SolverParameter::HDF5;
}

}  // namespace

SnapshotPaths PathsOf(const SolverParameter& param, int64_t iteration) {
  const std::string stem = StrCat(param.snapshot_prefix(), "_iter_", iteration);
  const std::string suffix = IsHdf5(param) ? ".h5" : "";
  return {stem + ".caffemodel" + suffix, stem + ".solverstate" + suffix};
}

void ProbeSnapshotFolder(const std::string& prefix) {
  const std::string probe = prefix + "_iter_0.tempfile";
  try {
    WriteFileAtomically(probe, "");
  } catch (const Error& error) {
    Fail(error.code(), StrCat("snapshots cannot be written with snapshot_prefix \"", prefix,
                              "\": ", error.what()));
  }
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
}

SnapshotPaths WriteSnapshot(const SolverParameter& param, const Plan& plan, const Weights& weights,
                            int64_t iteration, SolverState state) {
  const SnapshotPaths paths = PathsOf(param, iteration);
  const NetParameter model = weights.Export(plan);
  state.set_learned_net(paths.model);
  state.set_weights_crc32(ChecksumOf(plan, weights));
  if (IsHdf5(param)) {
    WriteCaffemodelHdf5(model, paths.model);
    WriteSolverStateHdf5(state, paths.state);
  } else {
    WriteCaffemodel(model, paths.model);
    WriteSolverState(state, paths.state);
  }
  return paths;
}

void LoadModelOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                      Weights* weights) {
  namespace fs = std::filesystem;
  std::string path = state.learned_net();
  if (path.empty()) {
    Fail(ErrorCode::kDataLoss, "the state names no model file", {.file = state_path});
  }
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    const fs::path beside = fs::path(state_path).parent_path() / fs::path(path).filename();
    if (!fs::exists(beside, ignored)) {
      Fail(ErrorCode::kNotFound,
           StrCat("the state needs the model ", path, ", which is not there, nor is ",
                  beside.string()),
           {.file = state_path});
    }
    path = beside.string();
  }
  weights->Load(plan, ReadCaffemodel(path), path, MissingLayers::kError);
  if (state.has_weights_crc32() && state.weights_crc32() != ChecksumOf(plan, *weights)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the model ", path,
                " is not the one that was saved with this state; it was "
                "replaced since"),
         {.file = state_path});
  }
}

}  // namespace crema
