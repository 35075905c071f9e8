// weights: lists, changes, converts and compares weights files.
#include <gflags/gflags.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "common/action.h"
#include "common/net_flags.h"
#include "common/output_file.h"
#include "common/tool.h"
#include "common/weights_file.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "weights/difference.h"
#include "weights/edit.h"
#include "weights/fold.h"
#include "weights/list.h"

DEFINE_string(
    o, "",
    "[Output FILE @average @convert @copy @fold @rename] file to write: .caffemodel, .h5 or "
    ".safetensors");
DEFINE_string(type, "f32",
              "[Output f32|f16 @average @convert @copy @fold @rename] type of the written numbers");
DEFINE_string(model, "", "[Input FILE @fold] the net of the weights, a prototxt");
DEFINE_string(net_output, "",
              "[Output FILE.prototxt @fold] file for the net without the folded layers");
DEFINE_double(atol, 0, "[Run @diff] absolute difference that is no difference");
DEFINE_double(rtol, 0, "[Run @diff] the same, as a share of the larger of both numbers");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema weights list FILE\n"
    "crema weights rename IN OLD=NEW [OLD=NEW...] -o OUT\n"
    "crema weights copy FROM INTO [LAYER[=NEW]...] -o OUT\n"
    "crema weights average FILE FILE [FILE...] -o OUT\n"
    "crema weights fold IN --model=NET -o OUT --net_output=NET\n"
    "crema weights convert IN [--type=f16] -o OUT\n"
    "crema weights diff FILE FILE [--atol=N] [--rtol=N]\n"
    "\n"
    "Lists, changes, converts and compares weights: caffemodels, HDF5 (.h5), safetensors\n"
    "whose tensors are called LAYER.0, LAYER.1, ..., and those in .crema files, which are only\n"
    "read. The contents of a file tell its format; the extension of OUT chooses the one that is\n"
    "written. Inputs are never replaced. See docs/weights.md.\n"
    "\n"
    "Exit codes: 0 success; 1 diff: the files differ; 2 wrong usage, a missing file, layers\n"
    "that are not there or do not fit; 3 a damaged file, or one that cannot be written.\n"
    "\n"
    "Examples:\n"
    "crema weights list net.caffemodel\n"
    "crema weights rename net.caffemodel fc8=fc8_flowers -o start.caffemodel\n"
    "crema weights copy vgg16.caffemodel net.caffemodel conv1_1 conv1_2=conv2 -o "
    "start.caffemodel\n"
    "crema weights average net_iter_9000.caffemodel net_iter_10000.caffemodel -o mean.caffemodel\n"
    "crema weights fold net.caffemodel --model=deploy.prototxt -o folded.caffemodel "
    "--net_output=folded.prototxt\n"
    "crema weights convert net.caffemodel -o net.safetensors\n"
    "crema weights convert net.caffemodel --type=f16 -o half.caffemodel\n"
    "crema weights diff a.caffemodel b.h5 --atol=1e-6\n"
    "crema weights diff a.caffemodel b.safetensors";

using Words = std::vector<std::string>;

NumberType TypeOfFlag() {
  if (FLAGS_type == "f32") return NumberType::kF32;
  if (FLAGS_type == "f16") return NumberType::kF16;
  Fail(ErrorCode::kInvalidArgument, StrCat("--type: '", FLAGS_type, "' is not f32 or f16"));
}

// Checks everything about the output before the inputs are read.
void CheckOutput(const Words& inputs) {
  RequireFlag(FLAGS_o, "o");
  TypeOfFlag();
  CheckWeightsOutput(FLAGS_o, inputs);
}

int Write(const NetParameter& net) {
  WriteWeights(net, FLAGS_o, TypeOfFlag());
  std::printf("wrote %s\n", FLAGS_o.c_str());
  return 0;
}

int RunList(const Words& words) {
  std::fputs(ListWeights(ReadWeights(words[0])).c_str(), stdout);
  return 0;
}

int RunRename(const Words& words) {
  CheckOutput({words[0]});
  return Write(RenameLayers(ReadWeights(words[0]), {words.begin() + 1, words.end()}));
}

int RunCopy(const Words& words) {
  CheckOutput({words[0], words[1]});
  const CopiedLayers copied =
      CopyLayers(ReadWeights(words[0]), ReadWeights(words[1]), {words.begin() + 2, words.end()});
  std::printf("copied %s\n", Join(copied.names, " ").c_str());
  return Write(copied.net);
}

int RunAverage(const Words& words) {
  CheckOutput(words);
  WeightsMean mean;
  for (const std::string& path : words) mean.Add(ReadWeights(path));
  return Write(mean.Take());
}

int RunFold(const Words& words) {
  RequireFlag(FLAGS_model, "model");
  RequireFlag(FLAGS_net_output, "net_output");
  CheckOutput({words[0], FLAGS_model});
  CheckOutputFile(FLAGS_net_output);
  const FoldedNet folded = FoldBatchNorms(ReadNet(FLAGS_model), ReadWeights(words[0]));
  std::fputs(folded.report.c_str(), stdout);
  WriteFileAtomically(FLAGS_net_output, PrintText(folded.net));
  std::printf("wrote %s\n", FLAGS_net_output.c_str());
  return Write(folded.weights);
}

int RunConvert(const Words& words) {
  CheckOutput({words[0]});
  return Write(ReadWeights(words[0]).net);
}

int RunDiff(const Words& words) {
  if (!(FLAGS_atol >= 0 && FLAGS_rtol >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "--atol and --rtol are 0 or more");
  }
  const WeightsDifference difference =
      CompareWeights(ReadWeights(words[0]), ReadWeights(words[1]),
                     {.absolute = FLAGS_atol, .relative = FLAGS_rtol});
  std::fputs(difference.text.c_str(), stdout);
  return difference.differ ? 1 : 0;
}

struct Action {
  const char* name;
  size_t least;  // arguments
  size_t most;
  const char* arguments;
  int (*run)(const Words&);
};

constexpr size_t kAny = 1000000;
constexpr std::array<Action, 7> kActions = {
    {{"average", 2, kAny, "FILE FILE [FILE...] -o OUT", RunAverage},
     {"convert", 1, 1, "IN -o OUT", RunConvert},
     {"copy", 2, kAny, "FROM INTO [LAYER[=NEW]...] -o OUT", RunCopy},
     {"diff", 2, 2, "FILE FILE", RunDiff},
     {"fold", 1, 1, "IN --model=NET -o OUT --net_output=NET", RunFold},
     {"list", 1, 1, "FILE", RunList},
     {"rename", 2, kAny, "IN OLD=NEW [OLD=NEW...] -o OUT", RunRename}}};

int Run(Words words) {
  const Action& action = TakeAction("weights", kActions, " FILE...", &words);
  if (words.size() < action.least || words.size() > action.most) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected weights ", action.name, " ", action.arguments, ", got ", words.size(),
                words.size() == 1 ? " argument" : " arguments"));
  }
  return action.run(words);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
