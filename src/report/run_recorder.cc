#include "report/run_recorder.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "core/json.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/lists/class_names.h"
#include "format/prototxt.h"
#include "report/build_info.h"
#include "report/clock.h"
#include "solvers/epochs.h"

namespace crema {
namespace {

// Returns the plugins that the layers of the nets come from, as a list of objects.
std::string PluginsJson(const Solver& solver) {
  std::map<std::string, std::string> plugins;
  const auto add = [&](const Plan& plan) {
    for (const PlannedLayer& layer : plan.layers) {
      if (layer.type->plugin == nullptr) continue;
      const PluginFacts& plugin = *layer.type->plugin;
      plugins[plugin.name] = StrCat(
          "{\"name\":", JsonString(plugin.name), ",\"version\":", JsonString(plugin.version),
          ",\"path\":", JsonString(plugin.path), ",\"sha256\":", JsonString(plugin.sha256), "}");
    }
  };
  add(solver.plan());
  for (size_t i = 0; i < solver.test_count(); ++i) add(solver.test_plan(i));
  std::vector<std::string> texts;
  for (const auto& [name, text] : plugins) texts.push_back(text);
  return StrCat("[", Join(texts, ","), "]");
}

// Returns run.json: one object on one line; docs/run_folder.md has its members.
std::string RunJson(Solver& solver, const RecorderOptions& options) {
  const RunConfig& config = solver.config();
  const BuildInfo build = ThisBuild();
  std::vector<std::string> words;
  for (const std::string& word : options.command) words.push_back(JsonString(word));
  std::error_code ignored;
  const std::string folder = std::filesystem::current_path(ignored).string();
  return StrCat(
      "{\"schema\":1,\"time\":", JsonString(UtcText(UnixTime())),
      ",\"version\":", JsonString(build.version), ",\"revision\":", JsonString(build.revision),
      ",\"compiler\":", JsonString(build.compiler), ",\"build_type\":", JsonString(build.type),
      ",\"command\":[", Join(words, ","), "],\"working_folder\":", JsonString(folder),
      ",\"net\":", JsonString(config.train.file.net.name()),
      ",\"solver_type\":", JsonString(config.solver.solver.type()), ",\"seed\":", solver.seed(),
      ",\"threads\":", options.threads, ",\"iteration\":", solver.iteration(),
      ",\"samples\":", EpochsOf(solver.session(), 1).samples(),
      ",\"max_iter\":", config.solver.solver.max_iter(), ",\"plugins\":", PluginsJson(solver),
      "}\n");
}

// Returns texts by file name: run.json, net.prototxt, solver.prototxt, test_net_<i>.prototxt for
// test nets with their own text, and labels.txt if the data set has names.
std::map<std::string, std::string> RunTexts(Solver& solver, const RecorderOptions& options) {
  const RunConfig& config = solver.config();
  const SolverParameter& param = config.solver.solver;
  std::map<std::string, std::string> texts = {
      {"run.json", RunJson(solver, options)},
      {"net.prototxt", PrintText(config.train.file.net)},
      {"solver.prototxt", PrintText(param)},
  };
  const std::vector<std::string> names = ClassNames(config.train.file.net);
  if (!names.empty()) texts[kClassNamesFile] = Join(names, "\n") + "\n";
  const size_t own =
      static_cast<size_t>(param.test_net_param_size()) + static_cast<size_t>(param.test_net_size());
  for (size_t i = 0; i < own && i < config.tests.size(); ++i) {
    texts[StrCat("test_net_", i, ".prototxt")] = PrintText(config.tests[i].file.net);
  }
  return texts;
}

}  // namespace

RunRecorder::RunRecorder(Solver& solver, const RecorderOptions& options, LogSink& log)
    : folder_(options.folder, options.start, RunTexts(solver, options), log),
      starts_(folder_, "starts.jsonl", [] { return std::string(); }),
      metrics_(folder_, solver.iteration(), options.interval),
      events_(folder_, solver.session(),
              {.start = options.start,
               .first_iteration = solver.iteration(),
               .interval = options.interval,
               .histogram_interval = options.histogram_interval}) {
  starts_.Append(folder_.text("run.json"));
  observers_.Add(metrics_);
  observers_.Add(events_);
}

}  // namespace crema
