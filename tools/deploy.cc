// deploy: uses trained nets.
#include <algorithm>
#include <array>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/actions.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "deploy classify MODEL IMAGE...: prints the best classes of each image.\n"
    "deploy detect MODEL IMAGE...: prints the boxes that a net with DetectionOutput finds.\n"
    "deploy segment MODEL IMAGE...: prints the share of each class in each image.\n"
    "deploy run MODEL --input=data=x.npy --output=y.npz: runs any net on arrays.\n"
    "deploy bench MODEL: measures latency and throughput.\n"
    "deploy verify MODEL --recording=r.npz | --against=OTHER: compares results.\n"
    "deploy export MODEL --output=m.crema: writes one file with everything that a model needs.\n"
    "MODEL is --model=m.crema, --model=m.onnx, --run=FOLDER (that train recorded), or --model=NET\n"
    "--weights=net.caffemodel. IMAGE is an image, a video, a folder or - (standard input).\n"
    "A pixel v becomes ((invert ? 255 - v : v) - mean) * scale.\n"
    "Exit codes: 0 success; 1 verify: the results differ by more than allowed, export to ONNX:\n"
    "the file computes something else; 2 wrong usage; 3 an image or file cannot be read, the\n"
    "others were processed; 4 device or memory. See docs/deploy.md.";

struct Action {
  const char* name;
  int (*run)(const std::vector<std::string>&);
};

constexpr std::array<Action, 7> kActions = {{{"bench", Bench},
                                             {"classify", Classify},
                                             {"detect", Detect},
                                             {"export", Export},
                                             {"run", RunNet},
                                             {"segment", Segment},
                                             {"verify", Verify}}};

int Run(std::vector<std::string> arguments) {
  std::vector<std::string> known;
  for (const Action& action : kActions) known.emplace_back(action.name);
  if (arguments.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("name an action: deploy ", Join(known, "|"), " --model=...; see --help"));
  }
  const std::string wanted = arguments[0];
  arguments.erase(arguments.begin());
  const auto* action = std::ranges::find(kActions, wanted, &Action::name);
  if (action != kActions.end()) return action->run(arguments);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("unknown action '", wanted, "'", DidYouMean(wanted, known),
              "; this version has: ", Join(known, " ")));
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
