#include "deploy/training.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/lists/class_names.h"
#include "format/file.h"
#include "graph/detections.h"
#include "inference/deploy_net.h"
#include "inference/derive_deploy_net.h"
#include "report/run_folder.h"
#include "solvers/snapshot.h"
#include "solvers/snapshot_set.h"
#include "solvers/solver_config.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool AreSame(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// Returns the folder in which train ran; empty if it does not exist here, or is the present one.
std::string WorkingFolder(const fs::path& run) {
  google::protobuf::Struct facts;
  const std::string text = ReadFile((run / "run.json").string());
  if (!google::protobuf::util::JsonStringToMessage(text, &facts).ok()) return "";
  const auto folder = facts.fields().find("working_folder");
  if (folder == facts.fields().end()) return "";
  const std::string& path = folder->second.string_value();
  return !path.empty() && Exists(path) && !AreSame(path, ".") ? path : "";
}

// Resolves the relative paths of files that exist below `folder`.
void ResolveFiles(const std::string& folder, NetParameter* net) {
  constexpr std::array<std::string_view, 4> kFiles = {"source", "root_folder", "mean_file",
                                                      "label_map_file"};
  for (LayerParameter& layer : *net->mutable_layer()) {
    std::vector<const google::protobuf::FieldDescriptor*> messages;
    layer.GetReflection()->ListFields(layer, &messages);
    for (const auto* message : messages) {
      if (message->message_type() == nullptr || message->is_repeated()) continue;
      google::protobuf::Message* param = layer.GetReflection()->MutableMessage(&layer, message);
      for (const std::string_view name : kFiles) {
        const auto* field = param->GetDescriptor()->FindFieldByName(std::string(name));
        if (field == nullptr || field->is_repeated() ||
            field->cpp_type() != field->CPPTYPE_STRING) {
          continue;
        }
        const std::string path = param->GetReflection()->GetString(*param, field);
        const std::string resolved = StrCat(folder, "/", path);
        if (path.empty() || path.starts_with('/') || !Exists(resolved)) continue;
        param->GetReflection()->SetString(param, field, resolved);
      }
    }
  }
}

bool HasPredictions(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    return MakesDetections(layer.type()) || layer.type().ends_with("Loss");
  });
}

// A prefix of snapshot files, if there are any of it, and the file to take.
std::string WeightsOfPrefix(const std::string& prefix, const SolverParameter& solver,
                            std::string* kind) {
  SolverParameter at = solver;
  at.set_snapshot_prefix(prefix);
  if (solver.has_snapshot_best() && Exists(BestPath(at))) {
    *kind = "the best model";
    return BestPath(at);
  }
  const std::vector<SnapshotFile> snapshots = ListSnapshots(prefix);
  if (snapshots.empty()) return "";
  const SnapshotPaths paths = PathsOfState(snapshots.back().state);
  const bool averaged = solver.ema_decay() > 0 && Exists(paths.ema);
  *kind = averaged ? "the last snapshot, averaged" : "the last snapshot";
  return averaged ? paths.ema : paths.model;
}

// Returns the places where the snapshots of a training may be.
std::vector<std::string> PrefixesOf(const Training& training) {
  const fs::path prefix = training.solver.snapshot_prefix();
  if (training.run.empty()) return {prefix.string()};
  std::vector<std::string> places;
  if (!training.working_folder.empty()) {
    places.push_back((fs::path(training.working_folder) / prefix).string());
  } else {
    places.push_back(prefix.string());
  }
  // The run was moved, with its snapshots beside it.
  places.push_back((fs::absolute(training.run) / ".." / prefix.filename()).lexically_normal());
  if (!training.working_folder.empty()) places.push_back(prefix.string());
  return places;
}

void WarnOfOtherRun(const Training& training, const std::string& prefix) {
  const std::string last = RunFolderOfPrefix(prefix, RunStart::kContinued);
  if (training.run.empty() || !HoldsRun(last) || AreSame(last, training.run)) return;
  ToolLog().Write(Severity::kWarning, StrCat("the run in ", last,
                                             " writes snapshots of the same prefix: the weights "
                                             "may be of that run; name a file with --weights"));
}

}  // namespace

Training ReadRunFolder(const std::string& folder) {
  if (!HoldsRun(folder)) {
    const char* const what =
        Exists(folder) ? "is no run folder: it has no run.json" : "there is no such folder";
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--run: ", what, "; give the folder that train recorded, <snapshot_prefix>_run"),
         {.file = folder});
  }
  const fs::path run = folder;
  const std::string solver = (run / "solver.prototxt").string();
  Training training{.text = (run / "net.prototxt").string(), .run = folder};
  training.net = ReadNet(training.text);
  training.solver = ParseSolver(ReadFile(solver), solver).solver;
  const std::string test = (run / "test_net_0.prototxt").string();
  if (Exists(test)) {
    NetFile net = ReadNet(test);
    if (HasPredictions(net.net)) {
      training.net = std::move(net);
      training.text = test;
    }
  }
  training.state = training.net.net.state();
  if (training.solver.test_state_size() > 0) {
    training.state.MergeFrom(training.solver.test_state(0));
  }
  training.state.set_phase(TEST);
  training.working_folder = WorkingFolder(run);
  if (!training.working_folder.empty()) {
    ResolveFiles(training.working_folder, &training.net.net);
  }
  training.labels = ClassNamesIn(folder);
  if (training.labels.empty()) training.labels = ClassNames(training.net.net);
  return training;
}

Training ReadTrainingOf(const std::string& solver) {
  RunConfig config = MakeRunConfig(ReadSolver(solver));
  Training training{.text = config.train.file.source.file, .solver = config.solver.solver};
  training.labels = ClassNames(config.train.file.net);
  training.state = InferenceState(config.train.file.net);
  if (!config.tests.empty()) training.state = config.tests[0].state;
  const bool own = !config.tests.empty() && HasPredictions(config.tests[0].file.net);
  training.net = std::move(own ? config.tests[0].file : config.train.file);
  training.text = training.net.source.file;
  return training;
}

std::string WeightsOf(const Training& training) {
  const std::vector<std::string> prefixes = PrefixesOf(training);
  for (const std::string& prefix : prefixes) {
    std::string kind;
    std::string weights = WeightsOfPrefix(prefix, training.solver, &kind);
    if (weights.empty()) continue;
    ToolLog().Write(Severity::kInfo, StrCat("weights: ", weights, " (", kind, ")"));
    WarnOfOtherRun(training, prefix);
    return weights;
  }
  Fail(ErrorCode::kNotFound,
       StrCat("the training has no snapshot '", prefixes.front(),
              "_iter_N': train first, or name a file with --weights"),
       {.file = training.run.empty() ? training.text : training.run});
}

NetFile DeployNetOf(NetFile net, const NetState& state, const std::map<std::string, Shape>& shapes,
                    const Registry& registry, ModelCard* card) {
  if (!IsTrainingNet(net.net, state)) return net;
  DerivedNet derived = DeriveDeployNet(net, state, shapes, registry);
  for (const std::string& note : derived.notes) ToolLog().Write(Severity::kInfo, note);
  card->preprocessing = std::move(derived.preprocessing);
  return std::move(derived.net);
}

}  // namespace crema::tools
