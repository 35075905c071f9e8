// devices: describes the compute devices of this machine.
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "common/tool.h"
#include "devices/machine.h"

DEFINE_bool(json, false, "print one JSON object");
DEFINE_bool(measure, true, "measure rates too, about a second for each device");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "devices [--json] [--nomeasure]: prints the processor and the GPUs of this machine, their "
    "memory,\n"
    "the versions of the GPU libraries, and the best rates of each: products of matrices, memory,\n"
    "copies. If no GPU can be used, it prints the reason.";

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
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
