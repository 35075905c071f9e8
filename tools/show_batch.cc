// show_batch: draws the exact input of a net.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/lines.h"
#include "common/log.h"
#include "common/net_flags.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "core/blob_types.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/lists/class_names.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "show_batch/batch_tiles.h"
#include "show_batch/sheet.h"
#include "solvers/solver_config.h"

DEFINE_string(model, "", "[Input FILE #1] the net with its data layer, a prototxt");
DEFINE_string(solver, "", "[Input FILE] or a solver, whose net and random_seed are taken");
DEFINE_string(phase, "train", "[Run train|test] train or test");
DEFINE_int32(level, 0, "[Expert] NetState.level, with --model");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas, with --model");
DEFINE_int32(batches, 1, "[Run] number of batches");
DEFINE_int32(count, 0, "[Output] samples that are shown of each batch; 0: all");
DEFINE_int32(columns, 0, "[Output] samples in a row; 0: about a square");
DEFINE_int64(seed, -1, "[Run] of random draws; -1: that of the solver, or 1");
DEFINE_string(
    labels, "",
    "[Input FILE] text file with the name of a class on each line; default: those of the data set");
DEFINE_string(o, "", "[Output FILE required] the picture: sheet.png");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema show_batch --solver=FILE | --model=FILE -o sheet.png [flags]\n"
    "\n"
    "Draws the first batches of a net as its data layer gives them. They are shown after\n"
    "cropping, mirroring and all augmentation, with labels and boxes. The picture undoes mean\n"
    "and scale, and stretches values that are not bytes then. The standard output has a line\n"
    "for each sample.\n"
    "\n"
    "Examples:\n"
    "crema show_batch --solver=models/lenet/solver.prototxt --count=32 -o sheet.png\n"
    "crema show_batch --model=train_val.prototxt --phase=test --labels=names.txt -o sheet.png";

// The data to show.
struct Source {
  NetFile file;
  NetState state;
  uint64_t seed = 1;
};

Source OfSolver() {
  const std::vector<FieldSetting> settings = SettingsOfFlags();
  RunConfig config = MakeRunConfig(ReadSolver(FLAGS_solver, settings), settings);
  const SolverParameter& solver = config.solver.solver;
  const uint64_t seed =
      solver.random_seed() >= 0 ? static_cast<uint64_t>(solver.random_seed()) : uint64_t{1};
  if (ParseState(FLAGS_phase, 0, "").phase() == TRAIN) {
    return {std::move(config.train.file), std::move(config.train.state), seed};
  }
  if (config.tests.empty()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", FLAGS_solver, "' has no test net"));
  }
  return {std::move(config.tests[0].file), std::move(config.tests[0].state), MixBits(seed, 1)};
}

Source SourceOfFlags() {
  if (FLAGS_model.empty() == FLAGS_solver.empty()) {
    Fail(ErrorCode::kInvalidArgument, "give --model or --solver; see --help");
  }
  Source source;
  if (!FLAGS_solver.empty()) {
    source = OfSolver();
  } else {
    source = {ReadNet(FLAGS_model, SettingsOfFlags()),
              ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage)};
  }
  if (FLAGS_seed >= 0) source.seed = static_cast<uint64_t>(FLAGS_seed);
  return source;
}

// Keeps only data layers, since nothing else needs to run. Random draws depend on layer names, so
// they stay the same.
NetFile DataLayersOf(const NetFile& whole) {
  NetFile data = whole;
  data.net.clear_layer();
  for (int i = 0; i < whole.net.layer_size(); ++i) {
    const LayerParameter& layer = whole.net.layer(i);
    if (layer.bottom_size() > 0 || layer.type() == "Input") continue;
    const int place = data.net.layer_size();
    *data.net.add_layer() = layer;
    if (place == i) continue;
    data.source.Remove(StrCat("layer[", place, "]"));
    data.source.Move(StrCat("layer[", i, "]"), StrCat("layer[", place, "]"));
  }
  if (data.net.layer_size() == 0) {
    Fail(ErrorCode::kInvalidArgument,
         "this net has no data layer, so there is nothing to show; give the net for training");
  }
  return data;
}

// The session's plan refers to the registry, which must outlive it.
std::unique_ptr<Session> Open(const Source& source, const Registry& registry) {
  const int threads = WorkersOfFlags();
  NetFile data = DataLayersOf(source.file);
  const auto plan = MakePlan(data.net, data.source, source.state, registry,
                             {.threads = threads, .backward = false}, &data.warnings);
  for (const Problem& warning : data.warnings) {
    ToolLog().Write(Severity::kWarning, ToString(warning));
  }
  std::shared_ptr<const Weights> weights = Weights::Make(*plan, source.seed);
  return std::make_unique<Session>(plan, weights, ExecContext(threads, source.seed));
}

void CheckFlags() {
  for (const auto& [name, value, least] : {std::tuple{"batches", FLAGS_batches, 1},
                                           {"count", FLAGS_count, 0},
                                           {"columns", FLAGS_columns, 0}}) {
    if (value >= least && value <= 10000) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", name, " is ", value, ", expected ", least, "..10000"));
  }
  const Tile any{
      .picture = {.width = 1, .height = 1, .pixels = {0, 0, 0}}, .caption = "", .boxes = {}};
  EncodeSheet({any}, 1, FLAGS_o);  // checks the extension
  CheckOutputFile(FLAGS_o);
}

int Run() {
  CheckFlags();
  const Registry registry = LayersOfFlag();
  const Source source = SourceOfFlags();
  const std::vector<std::string> names =
      FLAGS_labels.empty() ? ClassNames(source.file.net) : ReadLines(FLAGS_labels);
  const std::unique_ptr<Session> session = Open(source, registry);
  const BatchTiles samples(session->plan(), names);
  const int64_t count =
      FLAGS_count > 0 ? std::min<int64_t>(FLAGS_count, samples.batch()) : samples.batch();
  std::vector<Tile> tiles;
  for (int batch = 0; batch < FLAGS_batches; ++batch) {
    session->Forward();
    const ConstTensorView data = session->Data(samples.blob());
    const auto [least, most] = DispatchBlob(data.dtype(), [&]<typename T>(T) {
      const auto [low, high] = std::ranges::minmax(data.span<T>());
      return std::pair(static_cast<double>(low), static_cast<double>(high));
    });
    std::printf("batch %d: %s is %s%s, from %g to %g\n", batch, samples.blob().c_str(),
                ToString(data.shape()).c_str(), data.dtype() == DType::kU8 ? " bytes" : "", least,
                most);
    for (int64_t i = 0; i < count; ++i) {
      std::printf("%s\n", samples.Describe(*session, i).c_str());
      tiles.push_back(samples.MakeTile(*session, i));
    }
  }
  WriteFileAtomically(FLAGS_o, EncodeSheet(tiles, FLAGS_columns, FLAGS_o));
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
