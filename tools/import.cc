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
    "import m.onnx -o DIR [--shape=data=1x3x224x224] [--force]: converts an ONNX model to\n"
    "  DIR/deploy.prototxt and DIR/weights.caffemodel (docs/onnx.md).\n"
    "import --weights=m.safetensors|m.pth --onto=deploy.prototxt -o weights.caffemodel\n"
    "  [--map=FILE] [--print_map] [--key=NAME]: fills the parameters of a net from a PyTorch\n"
    "  state dict and lists the layer of each entry. Nothing in a .pth is executed\n"
    "  (docs/weights.md).";

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
