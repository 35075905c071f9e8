#include "common/gpu_flag.h"

#include <gflags/gflags.h>

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/gpu.h"

DEFINE_string(gpu, "",
              "[Device N|all] number of the GPU to compute on (crema devices lists them), or all; "
              "for train also several, "
              "such as 0,1; none: the CPU");

DEFINE_double(gpu_memory_limit, 0,
              "[Device MIB] MiB that this command allocates on each GPU at most; 0: all");

DEFINE_bool(cuda_graphs, true,
            "[Device] on a GPU, run whole passes as CUDA graphs if shapes do not change");

namespace crema::tools {
namespace {

int64_t LimitOfFlag() {
  constexpr double kMost = 1 << 30;
  if (FLAGS_gpu_memory_limit >= 0 && FLAGS_gpu_memory_limit <= kMost) {
    // Rounds up, since 0 means no limit.
    return std::llround(std::ceil(FLAGS_gpu_memory_limit * (1 << 20)));
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--gpu_memory_limit is ", FLAGS_gpu_memory_limit, "; give MiB, 0 for no limit"));
}

ComputeDevice Open(int number) { return OpenGpu(number, LimitOfFlag(), FLAGS_cuda_graphs); }

// Requires: no duplicates.
std::vector<int> NumbersOf(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& part : Split(text, ',')) {
    int number = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--gpu: '", text, "' is not 'all' or numbers separated by commas, such as 0,1"));
    }
    for (const int seen : numbers) {
      if (seen != number) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--gpu: ", number, " appears twice in '", text, "'"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

[[noreturn]] void FailOnDevice(const std::string& reason) {
  Fail(ErrorCode::kDeviceFailure,
       StrCat("--gpu=", FLAGS_gpu, ": ", reason, "; leave --gpu out to compute on the CPU"));
}

// Requires: the flag is set. `reason` explains the restriction to one GPU.
int TheGpuOfFlag(const std::string& reason) {
  const std::vector<int> numbers = FLAGS_gpu == "all" ? std::vector{0} : NumbersOf(FLAGS_gpu);
  if (!reason.empty()) FailOnDevice(reason);
  if (numbers.size() > 1 || (FLAGS_gpu == "all" && GpuCount() > 1)) {
    FailOnDevice("this command computes on one GPU, as all but train do; name one");
  }
  return numbers[0];
}

// Requires: the flag is set.
std::vector<int> AllGpusOfFlag() {
  std::vector<int> numbers;
  if (FLAGS_gpu != "all") numbers = NumbersOf(FLAGS_gpu);
  if (const std::string reason = WhyNoGpu(); !reason.empty()) FailOnDevice(reason);
  const int count = GpuCount();
  if (FLAGS_gpu == "all") {
    for (int i = 0; i < count; ++i) numbers.push_back(i);
  }
  for (const int number : numbers) {
    if (number < count) continue;
    FailOnDevice(StrCat("there is no GPU ", number, "; this machine has ", count, ", from 0"));
  }
  return numbers;
}

}  // namespace

ComputeDevice DeviceOfFlag() {
  LimitOfFlag();  // validates the flag even if it is unused
  if (FLAGS_gpu.empty()) return {};
  const int number = TheGpuOfFlag(WhyNoGpu());
  if (number >= GpuCount()) {
    FailOnDevice(StrCat("this machine has ", GpuCount(), ", counted from 0"));
  }
  return Open(number);
}

ComputeDevice DeviceOfRun(const SolverParameter& solver, LogSink& log) {
  const bool by_mode =
      FLAGS_gpu.empty() && solver.has_solver_mode() && solver.solver_mode() == SolverParameter::GPU;
  if (!by_mode) return DeviceOfFlag();
  const std::string reason = WhyNoGpu();
  if (reason.empty()) return Open(solver.device_id());
  log.Write(Severity::kWarning,
            StrCat("solver_mode: GPU is set, but ", reason, "; training continues on the CPU"));
  return {};
}

std::vector<ComputeDevice> DevicesOfRun(const SolverParameter& solver, LogSink& log) {
  if (FLAGS_gpu.empty()) return {DeviceOfRun(solver, log)};
  std::vector<ComputeDevice> devices;
  for (const int number : AllGpusOfFlag()) devices.push_back(Open(number));
  return devices;
}

Device PlannedDeviceOfFlag() {
  if (FLAGS_gpu.empty()) return {};
  return {DeviceType::kCuda, TheGpuOfFlag(BuiltWithCuda() ? "" : WhyNoGpu())};
}

}  // namespace crema::tools
