#include "common/plan_flags.h"

#include <gflags/gflags.h>

#include <map>
#include <string>

#include "common/log.h"
#include "core/error.h"
#include "core/strings.h"
#include "plan/plan_passes.h"
#include "report/build_info.h"
#include "runtime/autotuner.h"

DEFINE_string(
    passes, "all",
    "[Expert] passes of the planner: -fuse leaves one out, none,+fuse runs this one alone; "
    "docs/performance.md has their names");
DEFINE_double(autotune, 0,
              "[Expert SECONDS] seconds to spend at most on measuring which implementation of each "
              "layer is the "
              "fastest here; times are kept in ~/.cache/crema. 0: estimates decide");
DEFINE_bool(
    allow_cpu_layers, false,
    "[Device] with --gpu: the CPU computes layers that have no code for GPUs, on copies of their "
    "blobs, instead of an error");

DEFINE_string(implementation, "",
              "[Expert LAYER:NAME] implementations that must compute layers, as LAYER:NAME, "
              "separated by ';': "
              "\"conv1:native;ip1:native\"; summary --plan has the names");

namespace crema::tools {
namespace {

std::map<std::string, std::string> ParsePinned(const std::string& text) {
  std::map<std::string, std::string> pinned;
  for (const std::string& pair : Split(text, ';')) {
    if (pair.empty()) continue;
    const size_t colon = pair.rfind(':');  // layer names may contain colons
    if (colon == 0 || colon == std::string::npos || colon + 1 == pair.size()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("implementation: '", pair, "' is not LAYER:NAME, as in conv1:native"));
    }
    pinned[pair.substr(0, colon)] = pair.substr(colon + 1);
  }
  return pinned;
}

}  // namespace

PlanOptions PlanOptionsOfFlags() {
  return {.passes = ParsePasses(FLAGS_passes),
          .implementation_timer = MakeImplementationTimer(FLAGS_autotune),
          .allow_cpu_layers = FLAGS_allow_cpu_layers,
          .pinned = ParsePinned(FLAGS_implementation)};
}

std::shared_ptr<ImplementationTimer> MakeImplementationTimer(double seconds) {
  constexpr double kMost = 24 * 3600;
  if (!(seconds >= 0 && seconds <= kMost)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("autotune is ", seconds, "; give seconds, 0 to ", kMost));
  }
  if (seconds == 0) return nullptr;
  const BuildInfo build = ThisBuild();
  return std::make_shared<Autotuner>(
      AutotuneOptions{.seconds = seconds,
                      .folder = AutotuneFolder(),
                      .build = StrCat("Crema ", build.version, " ", build.revision),
                      .log = &ToolLog()});
}

}  // namespace crema::tools
