// deploy: what a trained net is for.
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/actions.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "deploy classify --model=D --weights=W IMAGE...: prints the best classes of each image.\n"
    "deploy detect --model=D --weights=W [--draw=OUT] IMAGE...: prints the boxes that a net with\n"
    "DetectionOutput finds in each image.\n"
    "IMAGE is a file or a folder. A pixel v becomes ((invert ? 255 - v : v) - mean) * scale.";

int Run(std::vector<std::string> arguments) {
  const std::vector<std::string> known = {"classify", "detect"};
  if (arguments.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "say what to do: deploy classify|detect --model=D --weights=W IMAGE...");
  }
  const std::string action = arguments[0];
  arguments.erase(arguments.begin());
  if (action == "classify") return Classify(arguments);
  if (action == "detect") return Detect(arguments);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("unknown action '", action, "'", DidYouMean(action, known),
              "; this version has: ", Join(known, " ")));
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
