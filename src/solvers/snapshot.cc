#include "solvers/snapshot.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/solver_state.h"
#include "solvers/learning_rate.h"

namespace crema {
namespace {

uint32_t ChecksumOf(const Plan& plan, const Weights& weights) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    if (plan.parameters[s].owner != static_cast<int>(s)) continue;
    const ConstTensorView blob = weights.blob(s);
    crc = crc32_z(crc, static_cast<const Bytef*>(blob.raw()), blob.bytes());
  }
  return static_cast<uint32_t>(crc);
}

bool IsHdf5(const SolverParameter& param) {
  return param.snapshot_format() == SolverParameter::HDF5;
}

// Removes models of a snapshot whose state is not written, since no state names them, unless an
// older state of that iteration does.
class ModelsInWriting {
 public:
  explicit ModelsInWriting(std::string state_path) : state_path_(std::move(state_path)) {}
  ~ModelsInWriting() {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(state_path_, ignored)) return;
    for (const std::string& path : written_) std::filesystem::remove(path, ignored);
  }
  ModelsInWriting(const ModelsInWriting&) = delete;
  ModelsInWriting& operator=(const ModelsInWriting&) = delete;

  void Add(const std::string& path) { written_.push_back(path); }

 private:
  std::string state_path_;
  std::vector<std::string> written_;
};

// Returns the current path of a file. Folders of runs are copied and moved, and another run may
// have taken the old place: the file beside the state has precedence over the one at the recorded
// path.
std::string Locate(const std::string& path, const std::string& state_path) {
  namespace fs = std::filesystem;
  if (path.empty())
    Fail(ErrorCode::kDataLoss, "the state names no model file", {.file = state_path});
  std::error_code ignored;
  const fs::path beside = fs::path(state_path).parent_path() / fs::path(path).filename();
  if (fs::is_regular_file(beside, ignored)) return beside.string();
  if (fs::is_regular_file(path, ignored)) return path;
  Fail(ErrorCode::kNotFound,
       StrCat("the state needs the model ", beside.string(), ", which does not exist, nor does ",
              path),
       {.file = state_path});
}

void RefuseOther(const std::string& path, const std::string& state_path) {
  Fail(ErrorCode::kDataLoss,
       StrCat("the model ", path,
              " is not the one that was saved with this state; it was replaced since"),
       {.file = state_path});
}

void CheckType(const SolverState& state, const std::string& path, const SolverParameter& param) {
  if (!state.has_solver_type() || state.solver_type() == param.type()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("this state is of a ", state.solver_type(), " solver, but the solver file says ",
              param.type(), "; resume with the same type, or start from the model with --weights"),
       {.file = path});
}

void WarnAboutSeed(const SolverState& state, const SolverParameter& param, uint64_t seed,
                   LogSink* log) {
  if (!state.has_seed()) return;
  if (state.seed() != seed) {
    log->Write(Severity::kWarning,
               StrCat("resuming with seed ", seed, ", but the run so far had ", state.seed(),
                      ": random draws will differ from an uninterrupted run"));
  } else if (param.random_seed() >= 0 &&
             static_cast<uint64_t>(param.random_seed()) != state.seed()) {
    log->Write(Severity::kWarning,
               StrCat("the solver file says random_seed: ", param.random_seed(),
                      ", but the run so far had ", state.seed(), "; it continues with that"));
  }
}

// Returns false if the drops counted in the state certainly belong to another schedule. A state
// does not name its policy, but `plateau` leaves more in it than others, and `multistep` drops at
// known iterations.
bool HasDropsOfSchedule(const SolverParameter& param, const SolverState& state) {
  const std::string& policy = param.lr_policy();
  if (state.current_step() == 0 || (policy != "plateau" && policy != "multistep")) return true;
  const bool of_plateau = state.has_minimum_loss() ||
                          std::ranges::any_of(state.metric_state(), [](const MetricState& rule) {
                            return rule.rule() == "plateau";
                          });
  if (policy == "plateau") return of_plateau;
  const auto passed =
      std::ranges::count_if(param.stepvalue(), [&](int value) { return value < state.iter(); });
  return !of_plateau && state.current_step() <= passed;
}

void CheckDrops(const SolverState& state, const std::string& path, const SolverParameter& param,
                LogSink* log) {
  const int steps = state.current_step();
  if (state.iter() < 0 || steps < 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the state is damaged: iteration ", state.iter(), ", current_step ", steps),
         {.file = path});
  }
  const int most = LearningRate(param).most_steps();
  if (steps > most) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the learning rate of the run so far dropped ", steps,
                " times, but the solver file has only ", most,
                " entries of stepvalue: the schedule was changed since. Put it back, or start from "
                "the model with --weights"),
         {.file = path});
  }
  if (!HasDropsOfSchedule(param, state)) {
    log->Write(Severity::kWarning, StrCat("the learning rate of the run so far dropped ", steps,
                                          " times by another lr_policy or other stepvalues; ",
                                          param.lr_policy(), " counts these drops as its own"));
  }
}

}  // namespace

SnapshotPaths PathsOf(const SolverParameter& param, int64_t iteration) {
  const std::string suffix = IsHdf5(param) ? ".h5" : "";
  return PathsOfState(StrCat(param.snapshot_prefix(), "_iter_", iteration, ".solverstate", suffix));
}

SnapshotPaths PathsOfState(const std::string& state_path) {
  constexpr std::string_view kState = ".solverstate";
  const size_t at = state_path.rfind(kState);
  CREMA_CHECK(at != std::string::npos);
  const std::string stem = state_path.substr(0, at);
  const std::string suffix = state_path.substr(at + kState.size());
  return {stem + ".caffemodel" + suffix, state_path, stem + "_ema.caffemodel" + suffix};
}

std::string BestPath(const SolverParameter& param) {
  return param.snapshot_prefix() + "_best.caffemodel" + (IsHdf5(param) ? ".h5" : "");
}

std::string ExistingFolderOf(const std::string& prefix) {
  std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  std::error_code error;
  while (!folder.empty() && folder.has_relative_path() && !std::filesystem::exists(folder, error)) {
    folder = folder.parent_path();
  }
  return folder.empty() ? "." : folder.string();
}

void MakeSnapshotFolder(const std::string& prefix) {
  const std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the folder of snapshot_prefix \"", prefix, "\" cannot be made: ",
                error == std::errc::not_a_directory
                    ? StrCat("'", ExistingFolderOf(prefix), "' is a file, not a folder")
                    : error.message()));
  }
  ProbeSnapshotFolder(prefix);
}

void ProbeSnapshotFolder(const std::string& prefix) {
  const std::string name = std::filesystem::path(prefix).filename().string();
  const std::string probe = StrCat(ExistingFolderOf(prefix), "/", name, "_iter_0.tempfile");
  try {
    WriteFileAtomically(probe, "");
  } catch (const Error& error) {
    Fail(error.code(), StrCat("snapshots cannot be written with snapshot_prefix \"", prefix,
                              "\": ", error.what()));
  }
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
}

void CheckSnapshotNames(const SolverParameter& param, const Plan& plan) {
  if (IsHdf5(param)) CheckHdf5LayerNames(plan.written, "");
}

void WriteModel(const SolverParameter& param, const Plan& plan, const Weights& weights,
                const std::string& path) {
  const NetParameter model = weights.Export(plan);
  if (IsHdf5(param)) {
    WriteCaffemodelHdf5(model, path);
  } else {
    WriteCaffemodel(model, path);
  }
}

SnapshotPaths WriteSnapshot(const SolverParameter& param, const Plan& plan, const Weights& weights,
                            const Weights* averaged, int64_t iteration, SolverState state) {
  SnapshotPaths paths = PathsOf(param, iteration);
  ModelsInWriting models(paths.state);
  WriteModel(param, plan, weights, paths.model);
  models.Add(paths.model);
  state.set_learned_net(paths.model);
  state.set_weights_crc32(ChecksumOf(plan, weights));
  if (averaged == nullptr) {
    paths.ema.clear();
  } else {
    WriteModel(param, plan, *averaged, paths.ema);
    models.Add(paths.ema);
    state.set_ema_net(paths.ema);
    state.set_ema_crc32(ChecksumOf(plan, *averaged));
  }
  if (IsHdf5(param)) {
    WriteSolverStateHdf5(state, paths.state);
  } else {
    WriteSolverState(state, paths.state);
  }
  return paths;
}

void LoadModelOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                      Weights* weights) {
  const std::string path = Locate(state.learned_net(), state_path);
  weights->Load(plan, ReadCaffemodel(path), path, MissingLayers::kError);
  if (state.has_weights_crc32() && state.weights_crc32() != ChecksumOf(plan, *weights)) {
    RefuseOther(path, state_path);
  }
}

void LoadAverageOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                        Weights* averaged) {
  const std::string path = Locate(state.ema_net(), state_path);
  averaged->Load(plan, ReadCaffemodel(path), path, MissingLayers::kError);
  if (state.has_ema_crc32() && state.ema_crc32() != ChecksumOf(plan, *averaged)) {
    RefuseOther(path, state_path);
  }
}

void CheckState(const SolverState& state, const std::string& path, const SolverParameter& param,
                uint64_t seed, LogSink* log) {
  CheckType(state, path, param);
  WarnAboutSeed(state, param, seed, log);
  CheckDrops(state, path, param, log);
}

}  // namespace crema
