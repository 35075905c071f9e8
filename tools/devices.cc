// devices: describes the compute devices of this machine.
#include <gflags/gflags.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "devices/machine.h"
#include "runtime/gpu.h"

DEFINE_bool(json, false, "[Output] print one JSON object");
DEFINE_bool(measure, true, "[Run] measure rates too, about a second for each device");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema devices [--json] [--nomeasure]\n"
    "\n"
    "Prints the processor and the GPUs of this machine. It lists their memory, the versions\n"
    "of the GPU libraries, and the best rates of each: products of matrices, memory, copies.\n"
    "If no GPU can be used, it prints the reason.\n"
    "\n"
    "Examples:\n"
    "crema devices\n"
    "crema devices --nomeasure --json";

// Returns the GPUs that `caffe device_query` is asked for: numbers, or "all".
std::vector<int> GpusOf(const std::vector<std::string>& words) {
  if (const std::string reason = WhyNoGpu(); !reason.empty() && !words.empty()) {
    Fail(ErrorCode::kDeviceFailure, reason);
  }
  std::vector<int> gpus;
  for (const std::string& word : words) {
    if (word == "all") {
      gpus.resize(static_cast<size_t>(GpuCount()));
      std::iota(gpus.begin(), gpus.end(), 0);
      continue;
    }
    const std::string last = std::to_string(GpuCount() - 1);
    const bool is_number = word.size() <= last.size() && !word.empty() &&
                           word.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoi(word) >= GpuCount()) {
      Fail(ErrorCode::kDeviceFailure,
           StrCat("there is no GPU '", word, "'; this machine has 0 to ", last));
    }
    gpus.push_back(std::stoi(word));
  }
  return gpus;
}

// Logs the lines of `caffe device_query` that Crema knows.
int RunAsCaffe(const std::vector<std::string>& words) {
  for (const int gpu : GpusOf(words)) {
    const GpuInfo info = InfoOfGpu(gpu);
    for (const std::string& line : {StrCat("Device id:                     ", gpu),
                                    StrCat("Major revision number:         ", info.major),
                                    StrCat("Minor revision number:         ", info.minor),
                                    StrCat("Name:                          ", info.name),
                                    StrCat("Total global memory:           ", info.memory),
                                    StrCat("Number of multiprocessors:     ", info.processors)}) {
      ToolLog().Write(Severity::kInfo, line);
    }
  }
  return 0;
}

int Run() {
  const Machine machine = DescribeMachine(FLAGS_measure);
  std::printf("%s", (FLAGS_json ? JsonOf(machine) : TextOf(machine)).c_str());
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 if (crema::tools::IsAsCaffe()) {
                                   return crema::tools::RunAsCaffe(arguments);
                                 }
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
