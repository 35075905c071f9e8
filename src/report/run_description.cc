#include "report/run_description.h"

#include <filesystem>
#include <system_error>

#include "core/json.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "report/build_info.h"
#include "report/clock.h"

namespace crema {

std::string RunJson(const RunConfig& config, const RunFacts& facts) {
  const BuildInfo build = ThisBuild();
  std::vector<std::string> words;
  for (const std::string& word : facts.command) words.push_back(JsonString(word));
  std::error_code ignored;
  const std::string folder = std::filesystem::current_path(ignored).string();
  return StrCat(
      "{\"schema\":1,\"time\":", JsonString(UtcText(UnixTime())),
      ",\"version\":", JsonString(build.version), ",\"revision\":", JsonString(build.revision),
      ",\"compiler\":", JsonString(build.compiler), ",\"build_type\":", JsonString(build.type),
      ",\"command\":[", Join(words, ","), "],\"working_folder\":", JsonString(folder),
      ",\"net\":", JsonString(config.train.file.net.name()),
      ",\"solver_type\":", JsonString(config.solver.solver.type()), ",\"seed\":", facts.seed,
      ",\"threads\":", facts.threads, ",\"iteration\":", facts.iteration,
      ",\"max_iter\":", config.solver.solver.max_iter(), "}\n");
}

std::map<std::string, std::string> RunTexts(const RunConfig& config, const RunFacts& facts) {
  const SolverParameter& solver = config.solver.solver;
  std::map<std::string, std::string> texts = {
      {"run.json", RunJson(config, facts)},
      {"net.prototxt", PrintText(config.train.file.net)},
      {"solver.prototxt", PrintText(solver)},
  };
  const size_t own = static_cast<size_t>(solver.test_net_param_size()) +
                     static_cast<size_t>(solver.test_net_size());
  for (size_t i = 0; i < own && i < config.tests.size(); ++i) {
    texts[StrCat("test_net_", i, ".prototxt")] = PrintText(config.tests[i].file.net);
  }
  return texts;
}

}  // namespace crema
