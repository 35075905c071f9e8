// deploy: uses trained nets.
#include <array>

#include "common/action.h"
#include "common/flag_table.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/options.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema deploy classify MODEL IMAGE... [flags]\n"
    "crema deploy detect MODEL IMAGE... [flags]\n"
    "crema deploy segment MODEL IMAGE... [flags]\n"
    "crema deploy run MODEL --input=data=x.npy --output=y.npz [flags]\n"
    "crema deploy bench MODEL [flags]\n"
    "crema deploy verify MODEL --recording=r.npz | --against=OTHER [flags]\n"
    "crema deploy export MODEL --output=m.crema [flags]\n"
    "\n"
    "Uses trained nets: classifies images, finds boxes, segments, runs nets on arrays,\n"
    "measures their speed, compares their results, and exports them as one file. crema deploy\n"
    "ACTION --help lists the flags of one action. See docs/deploy.md.\n"
    "\n"
    "MODEL is --model=m.crema, --model=m.onnx, --run=FOLDER (that train recorded), or\n"
    "--model=NET --weights=net.caffemodel. IMAGE is an image, a video, a folder or -\n"
    "(standard input). A pixel v becomes ((invert ? 255 - v : v) - mean) * scale.\n"
    "\n"
    "Exit codes: 0 success; 1 verify: the results differ by more than allowed, export to\n"
    "ONNX: the file computes something else; 2 wrong usage; 3 an image or file cannot be\n"
    "read, the others were processed; 4 device or memory.\n"
    "\n"
    "Examples:\n"
    "crema deploy export --run=runs/lenet/lenet_run --output=lenet.crema\n"
    "crema deploy export --model=deploy.prototxt --weights=net.caffemodel --output=m.onnx\n"
    "crema deploy classify --model=lenet.crema digit.png photos/\n"
    "crema deploy classify --model=lenet.crema --top=3 --json digit.png\n"
    "crema deploy detect --model=faces.crema --draw=found.png group.jpg\n"
    "crema deploy detect --model=faces.crema --confidence=0.8 --camera=0\n"
    "crema deploy segment --model=roads.crema --masks=masks/ street.jpg\n"
    "crema deploy segment --model=roads.crema --draw=drawn/ street1.jpg street2.jpg\n"
    "crema deploy run --model=m.crema --input=data=x.npy --output=y.npz\n"
    "crema deploy run --model=m.onnx --input=inputs.npz --output=outputs.h5\n"
    "crema deploy bench --model=m.crema\n"
    "crema deploy bench --model=m.crema --batches=1,8,32 --threads=1,2\n"
    "crema deploy verify --model=m.crema --recording=r.npz\n"
    "crema deploy verify --model=m.crema --against=deploy.prototxt "
    "--against_weights=net.caffemodel";

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

// A flag of another action would have no effect.
void RefuseFlagsOfOthers(const std::string& action) {
  for (const FlagEntry& flag : FlagsOf("deploy")) {
    if (flag.IsOf(action) || !IsGiven(flag.name.c_str())) continue;
    const bool wants_masks = action == "segment" && flag.name == "npy";
    Fail(
        ErrorCode::kInvalidArgument,
        StrCat("deploy ", action, " does not take ", Dashed(flag.name), ": it is a flag of deploy ",
               Join(flag.actions, ", "), wants_masks ? "; segment has --masks" : ""));
  }
}

int Run(std::vector<std::string> arguments) {
  const Action& action = TakeAction("deploy", kActions, " --model=...", &arguments);
  RefuseFlagsOfOthers(action.name);
  return action.run(arguments);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
