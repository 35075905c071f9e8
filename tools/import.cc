// import: makes nets and weights of Crema from the files of other programs.
#include <gflags/gflags.h>

#include "common/tool.h"
#include "core/error.h"
#include "import/onnx.h"
#include "import/weights.h"

DEFINE_string(o, "", "[Output PATH] the folder to write to; with --weights the file");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema import MODEL.onnx -o FOLDER [flags]\n"
    "crema import --weights=m.safetensors|m.pth --onto=deploy.prototxt -o weights.caffemodel "
    "[flags]\n"
    "\n"
    "Converts ONNX models, and weights of PyTorch. The first form writes\n"
    "FOLDER/deploy.prototxt and FOLDER/weights.caffemodel (docs/onnx.md). The second fills\n"
    "the parameters of a net from a state dict and lists the layer of each entry\n"
    "(docs/weights.md). Nothing in a .pth is executed.\n"
    "\n"
    "Exit codes: 0 success; 2 wrong usage, a missing file, a model or state dict that does\n"
    "not fit or has unsupported parts; 3 a damaged file, or one that cannot be written; 4\n"
    "memory.\n"
    "\n"
    "Examples:\n"
    "crema import resnet18.onnx -o resnet18\n"
    "crema import dynamic.onnx -o net --shape=data=1x3x224x224\n"
    "crema import --weights=resnet18.pth --onto=deploy.prototxt -o resnet18.caffemodel";

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
