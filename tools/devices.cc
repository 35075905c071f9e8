// devices: describes the compute devices of this machine.
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "common/tool.h"
#include "devices/machine.h"

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
