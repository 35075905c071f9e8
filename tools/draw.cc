// draw: draws a net.
#include <gflags/gflags.h>

#include <filesystem>

#include "common/net_flags.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/run_program.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "graph/dot.h"
#include "graph/infer.h"
#include "graph/replace_sources.h"

DEFINE_string(model, "", "[Input FILE required #1] the net, a prototxt");
DEFINE_string(o, "", "[Output FILE required #2] the picture: .svg, .png, .pdf or .dot");
DEFINE_string(phase, "test", "[Run train|test] test or train");
DEFINE_int64(batch, 0, "[Run] batch size; 0: as written");
DEFINE_string(shape, "", "[Input BLOB:SIZES] shapes of inputs: data:1,3,224,224;label:1");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema draw NET -o FILE [flags]\n"
    "\n"
    "Draws the layers of a net, their shapes and parameters. Pictures other than .dot are\n"
    "laid out by Graphviz's `dot`.\n"
    "\n"
    "Examples:\n"
    "crema draw models/lenet/train_val.prototxt -o lenet.svg\n"
    "crema draw train_val.prototxt -o net.png --phase=train";

std::string Dot() {
  NetFile file = ReadNet(FLAGS_model);
  const Registry registry = LayersOfFlag();
  ReplaceSources({.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch}, registry, &file.net);
  std::vector<Problem> warnings;
  const NetState state = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage);
  const Graph graph = BuildGraph(file.net, file.source, state, registry, &warnings);
  return ToDot(graph, InferShapes(graph, {}));
}

// Runs Graphviz. Writes the picture atomically and removes the temporary source.
void RunGraphviz(const std::string& dot, const std::string& format, const std::string& path) {
  AtomicFile source(path + ".dot");
  source.Write(dot);
  AtomicFile picture(path);
  const int code =
      RunProgram({"dot", "-T" + format, "-o", picture.temporary(), source.temporary()});
  if (code == 127) {
    Fail(ErrorCode::kNotFound,
         "Graphviz's program `dot` is not here; install graphviz, or write a .dot file");
  }
  if (code != 0) Fail(ErrorCode::kIoFailure, StrCat("Graphviz could not write ", path));
  picture.Commit();
}

int Run() {
  const std::string extension = std::filesystem::path(FLAGS_o).extension();
  if (extension != ".svg" && extension != ".png" && extension != ".pdf" && extension != ".dot") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("-o is '", FLAGS_o, "'; it ends in .svg, .png, .pdf or .dot"));
  }
  const std::string dot = Dot();
  if (extension == ".dot") {
    WriteFileAtomically(FLAGS_o, dot);
    return 0;
  }
  RunGraphviz(dot, extension.substr(1), FLAGS_o);
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
