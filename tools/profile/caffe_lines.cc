#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "profile/report.h"

namespace crema::tools {
namespace {

double Milliseconds(const TimeSpan& run) { return static_cast<double>(run.end - run.begin) / 1e6; }

double MeanMilliseconds(const PassProfile& pass, int64_t iterations) {
  return 1e3 * pass.total / static_cast<double>(iterations);
}

std::string LayerLine(const std::string& name, const char* pass, double milliseconds) {
  constexpr size_t kWidth = 10;
  const std::string indent(kWidth - std::min(kWidth, name.size()), ' ');
  return StrCat(indent, name, "\t", pass, ": ", milliseconds, " ms.");
}

}  // namespace

void LogCaffeLines(const ProfileReport& report, LogSink& log) {
  const auto say = [&](const std::string& text) { log.Write(Severity::kInfo, text); };
  const Profile& profile = report.profile;
  const int64_t iterations = report.options.iterations;
  say("*** Benchmark begins ***");
  say(StrCat("Testing for ", iterations, " iterations."));
  for (size_t i = 0; i < profile.iteration.runs.size(); ++i) {
    say(StrCat("Iteration: ", i + 1,
               " forward-backward time: ", Milliseconds(profile.iteration.runs[i]), " ms."));
  }
  say("Average time per layer: ");
  std::vector<const LayerProfile*> timed(report.plan.layers.size());
  for (const LayerProfile& layer : profile.layers) timed[layer.layer] = &layer;
  const LayerProfile none;
  for (size_t i = 0; i < timed.size(); ++i) {
    const LayerProfile& layer = timed[i] == nullptr ? none : *timed[i];
    const std::string& name = report.plan.layers[i].name();
    say(LayerLine(name, "forward", MeanMilliseconds(layer.forward, iterations)));
    say(LayerLine(name, "backward",
                  MeanMilliseconds(layer.backward, iterations) +
                      MeanMilliseconds(layer.recompute, iterations)));
  }
  const double both = 1e3 * profile.total();
  say(StrCat("Average Forward pass: ", MeanMilliseconds(profile.forward, iterations), " ms."));
  say(StrCat("Average Backward pass: ", MeanMilliseconds(profile.backward, iterations), " ms."));
  say(StrCat("Average Forward-Backward: ", both / static_cast<double>(iterations), " ms."));
  say(StrCat("Total Time: ", both, " ms."));
  say("*** Benchmark ends ***");
}

}  // namespace crema::tools
