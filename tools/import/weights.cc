#include "import/weights.h"

#include <gflags/gflags.h>

#include <array>
#include <cstdio>

#include "common/net_flags.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "common/weights_file.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "format/safetensors.h"
#include "format/state_dict.h"
#include "plan/net_costs.h"
#include "runtime/state_match.h"

DEFINE_string(weights, "", "[Input FILE] the state dict: .safetensors, .pth or .pt");
DEFINE_string(onto, "", "[Input FILE] the deploy net whose parameters are filled");
DEFINE_string(shape, "",
              "[Input NAME=SIZES] shapes of inputs that the net or model does not give: "
              "data=1x3x224x224, with commas between inputs");
DEFINE_string(map, "",
              "[Input FILE] a file of lines 'entry = layer parameter', which replace guesses");
DEFINE_string(constants, "",
              "[Input FILE] the weights.caffemodel of an imported net: its layers Parameter "
              "without an entry, "
              "such as the states of an LSTM, have their values from there");
DEFINE_bool(print_map, false,
            "[Output] print the map with all guesses, to be edited, and write nothing");
DEFINE_string(
    key, "",
    "[Input NAME] of a .pth with several state dicts, the one to read; . for all together");

namespace crema::tools {
namespace {

bool IsSafetensors(const std::string& path) { return path.ends_with(".safetensors"); }

void CheckFlags(const std::string& output) {
  RequireFlag(FLAGS_weights, "weights");
  RequireFlag(FLAGS_onto, "onto");
  if (FLAGS_print_map) {
    if (!output.empty()) {
      Fail(ErrorCode::kInvalidArgument, "--print_map writes to the standard output; leave -o out");
    }
    return;
  }
  RequireFlag(output, "o");
  CheckWeightsOutput(output, std::array{FLAGS_weights, FLAGS_onto, FLAGS_map, FLAGS_constants});
}

std::shared_ptr<const Plan> PlanOfFlags(const Registry& registry) {
  CostOptions options;
  options.sources.given = ParseShapes(FLAGS_shape);
  options.state.set_phase(TEST);
  options.plan.implementation_timer = nullptr;
  return PlanWithSources(ReadNet(FLAGS_onto), registry, options, TEST, false, false);
}

[[noreturn]] void FailWithProblems(const StateMatches& matches) {
  std::vector<Problem> problems = matches.problems;
  if (FLAGS_map.empty()) {
    problems.push_back({ErrorCode::kInvalidArgument,
                        {},
                        "not all parameters could be matched; write the guesses to a file with "
                        "--print_map, complete it, and give it with --map=FILE"});
  }
  throw Error(std::move(problems));
}

void WriteTorchEntries(const Plan& plan, const Weights& weights, const std::string& output) {
  const std::vector<TorchEntry> entries = ToTorchEntries(plan, weights);
  std::vector<NamedArrayView> arrays;
  for (const TorchEntry& entry : entries) arrays.push_back({entry.name, entry.value.view()});
  WriteSafetensors(output, arrays);
}

void PrintOrigin(const StateDict& file, const StateMatches& matches) {
  const std::string key = file.key().empty() ? "" : StrCat(", its dict '", file.key(), "'");
  const std::string prefix =
      matches.prefix.empty() ? "" : StrCat(", without '", matches.prefix, "' before each name");
  std::printf("%s%s%s: %zu entries\n", file.path().c_str(), key.c_str(), prefix.c_str(),
              file.entries().size());
}

}  // namespace

bool WantsWeights() { return !FLAGS_weights.empty() || !FLAGS_onto.empty(); }

int ImportWeights(const std::string& output) {
  CheckFlags(output);
  const Registry registry = LayersOfFlag();
  const auto plan = PlanOfFlags(registry);
  const std::unique_ptr<StateDict> file = OpenStateDict(FLAGS_weights, FLAGS_key);
  std::vector<StateMapLine> map;
  if (!FLAGS_map.empty()) map = ParseStateMap(ReadFile(FLAGS_map), FLAGS_map);
  const StateMatches matches = MatchState(*plan, *file, map, FLAGS_map, !FLAGS_constants.empty());
  if (FLAGS_print_map) {
    std::fputs(PrintStateMap(*plan, *file, matches).c_str(), stdout);
    return 0;
  }
  PrintOrigin(*file, matches);
  std::fputs(DescribeMatches(*plan, *file, matches).c_str(), stdout);
  std::fflush(stdout);
  if (!matches.problems.empty()) FailWithProblems(matches);
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
  if (!FLAGS_constants.empty()) {
    weights->Load(*plan, ReadCaffemodel(FLAGS_constants), FLAGS_constants, MissingLayers::kError);
  }
  FillFromState(*plan, file.get(), matches, weights.get());
  if (IsSafetensors(output)) {
    WriteTorchEntries(*plan, *weights, output);
  } else {
    WriteWeights(weights->Export(*plan), output, NumberType::kF32);
  }
  std::printf("wrote %s\n", output.c_str());
  return 0;
}

}  // namespace crema::tools
