// import: makes nets and weights of Crema from the files of other programs.
#include <gflags/gflags.h>

#include "common/tool.h"
#include "core/error.h"
#include "import/onnx.h"
#include "import/weights.h"

DEFINE_string(o, "", "the folder to write to; with --weights the file");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "import m.onnx -o DIR [--shape=data=1x3x224x224] [--dialect=caffe|ssd] [--force]: converts an\n"
    "  ONNX model to DIR/deploy.prototxt and DIR/weights.caffemodel (docs/onnx.md).\n"
    "import --weights=m.safetensors|m.pth --onto=deploy.prototxt -o weights.caffemodel\n"
    "  [--map=FILE] [--print_map] [--key=NAME] [--constants=FILE]: fills the parameters of a net "
    "from a PyTorch\n"
    "  state dict and lists the layer of each entry. Nothing in a .pth is executed\n"
    "  (docs/weights.md).\n"
    "Exit codes: 0 success; 2 wrong usage, a missing file, a model or state dict that does not "
    "fit\n"
    "  or has unsupported parts; 3 a damaged file, or one that cannot be written; 4 memory.";

int Run(const std::vector<std::string>& arguments) {
  if (WantsWeights()) {
    RefusePositional(arguments);
    return ImportWeights(FLAGS_o);
  }
  if (arguments.size() == 1) return ImportOnnxModel(arguments[0], FLAGS_o);
  Fail(ErrorCode::kInvalidArgument,
       "name one file: import m.onnx -o DIR, or import --weights=FILE --onto=NET -o OUT");
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
