// draw: draws a net.
#include <gflags/gflags.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "common/gpu_flag.h"
#include "common/net_flags.h"
#include "common/output_file.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/run_program.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "draw/facts.h"
#include "draw/page.h"
#include "draw/svg.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "graph/dot.h"
#include "graph/infer.h"
#include "graph/replace_sources.h"
#include "runtime/weights.h"

DEFINE_string(model, "", "[Input FILE required #1] the net, a prototxt");
DEFINE_string(o, "", "[Output FILE required #2] the picture: .html, .svg, .png, .pdf or .dot");
DEFINE_string(phase, "test", "[Run train|test] test or train");
DEFINE_int64(batch, 0, "[Run] batch size; 0: as written");
DEFINE_string(shape, "", "[Input NAME=SIZES] shapes of inputs: data=1x3x224x224,label=1");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");
DEFINE_string(weights, "",
              "[Input FILE] for .html: a caffemodel, whose parameters are shown as histograms");
DEFINE_bool(plan, false, "[Output] show the implementation that the plan chooses for each layer");
DEFINE_string(profile, "", "[Input FILE] a file of profile --json, whose times are shown");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema draw NET -o FILE [flags]\n"
    "\n"
    "Draws the layers of a net, their shapes and parameters. A .html file is a page to move in\n"
    "and to search, with all parameters of each layer, and histograms of its weights\n"
    "(--weights). --plan and --profile=FILE show how the layers run and how long. Pictures other\n"
    "than .dot are laid out by Graphviz's `dot`.\n"
    "\n"
    "Examples:\n"
    "crema draw models/lenet/train_val.prototxt -o lenet.svg\n"
    "crema draw deploy.prototxt --weights=net.caffemodel -o net.html\n"
    "crema draw train_val.prototxt -o net.png --phase=train";

// The net, as it is drawn.
struct DrawnNet {
  NetFile file;
  Registry registry;
  NetState state;
  Graph graph;
  std::vector<LayerInfo> infos;
};

DrawnNet ReadDrawnNet() {
  DrawnNet net{.file = ReadNet(FLAGS_model, SettingsOfFlags()),
               .registry = LayersOfFlag(),
               .state = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage),
               .graph = {},
               .infos = {}};
  SetPrecisionOfFlag(&net.file.net);
  ReplaceSources({.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch}, net.registry,
                 &net.file.net);
  std::vector<Problem> warnings;
  net.graph = BuildGraph(net.file.net, net.file.source, net.state, net.registry, &warnings);
  net.infos = InferShapes(net.graph, {});
  return net;
}

std::shared_ptr<const Plan> PlanOf(const DrawnNet& net, const PlanOptions& options) {
  std::vector<Problem> warnings;
  return MakePlan(net.file.net, net.file.source, net.state, net.registry, options, &warnings);
}

PlanOptions OptionsOfRun(const DrawnNet& net) {
  PlanOptions options = PlanOptionsOfFlags();
  options.device = PlannedDeviceOfFlag();
  options.backward = net.state.phase() == TRAIN;
  return options;
}

// Throws kInvalidArgument if no layer of the net is in the profile.
std::map<std::string, LayerTimes> TimesOf(const DrawnNet& net) {
  std::map<std::string, LayerTimes> times = ReadLayerTimes(FLAGS_profile);
  const bool fits = std::ranges::any_of(
      net.graph.nodes, [&](const Node& node) { return times.contains(node.name()); });
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "has no layer of this net: it is the profile of another",
         {.file = FLAGS_profile});
  }
  return times;
}

// Returns the histograms of the parameters that the files of --weights have.
std::map<std::pair<std::string, int>, Histogram> HistogramsOf(const DrawnNet& net) {
  const auto plan = PlanOf(net, {.backward = false, .optimize = false});
  const auto weights = Weights::MakeToLoad(*plan, 1);
  const LoadReport report = LoadFiles(WeightsOfFlags({FLAGS_weights}, MissingLayers::kKeep), *plan,
                                      weights.get(), nullptr);
  std::map<std::pair<std::string, int>, Histogram> histograms;
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const ParameterSlot& slot = plan->parameters[s];
    if (!report.filled.contains(slot.owner)) continue;
    const std::string& layer = plan->layers[static_cast<size_t>(slot.layer)].name();
    histograms[{layer, slot.index}] = HistogramOf(std::as_const(*weights).blob(s).span<float>());
  }
  return histograms;
}

NetFacts FactsOf(const DrawnNet& net, bool is_page) {
  NetFacts facts;
  if (FLAGS_plan) facts.plan = FactsOfPlan(*PlanOf(net, OptionsOfRun(net)));
  if (!FLAGS_profile.empty()) facts.times = TimesOf(net);
  if (!FLAGS_weights.empty()) {
    if (!is_page)
      Fail(ErrorCode::kInvalidArgument, "--weights are shown by a page only: -o FILE.html");
    facts.weights = HistogramsOf(net);
  }
  return facts;
}

// Runs Graphviz, which writes the picture to `path`.
void RunGraphviz(const std::string& dot, const std::string& format, const std::string& path,
                 const std::string& target) {
  AtomicFile source(target + ".dot");
  source.Write(dot);
  const int code = RunProgram({"dot", "-T" + format, "-o", path, source.temporary()});
  if (code == 127) {
    Fail(ErrorCode::kNotFound,
         "Graphviz's program `dot` is not here; install graphviz, or write a .dot file");
  }
  if (code != 0) Fail(ErrorCode::kIoFailure, StrCat("Graphviz could not write ", target));
}

std::string SvgOf(const std::string& dot) {
  const AtomicFile svg(FLAGS_o + ".svg");  // never committed
  RunGraphviz(dot, "svg", svg.temporary(), FLAGS_o);
  return ReadFile(svg.temporary());
}

void WritePicture(const std::string& extension) {
  const DrawnNet net = ReadDrawnNet();
  const NetFacts facts = FactsOf(net, extension == ".html");
  const NetDrawing drawing = DrawNet(net.graph, net.infos, Remarks(net.graph, facts));
  if (extension == ".dot") return WriteFileAtomically(FLAGS_o, drawing.dot);
  if (extension == ".png" || extension == ".pdf") {
    AtomicFile picture(FLAGS_o);
    RunGraphviz(drawing.dot, extension.substr(1), picture.temporary(), FLAGS_o);
    return picture.Commit();
  }
  const std::string svg =
      WithTitles(SvgOf(drawing.dot), TitlesOf(net.graph, net.infos, drawing, facts));
  WriteFileAtomically(
      FLAGS_o, extension == ".svg" ? svg : DrawingPage(net.graph, net.infos, drawing, facts, svg));
}

int Run() {
  const std::string extension = std::filesystem::path(FLAGS_o).extension();
  const std::vector<std::string> known = {".html", ".svg", ".png", ".pdf", ".dot"};
  if (std::ranges::find(known, extension) == known.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("-o is '", FLAGS_o, "'; it ends in .html, .svg, .png, .pdf or .dot"));
  }
  CheckOutputFile(FLAGS_o);
  WritePicture(extension);
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
