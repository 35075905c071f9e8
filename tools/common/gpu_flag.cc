#include "common/gpu_flag.h"

#include <gflags/gflags.h>

#include <charconv>
#include <set>
#include <string>

#include "core/error.h"
#include "core/strings.h"

DEFINE_string(gpu, "", "GPUs to use: numbers separated by commas, or all. Not there yet");

namespace crema::tools {
namespace {

void CheckNumbers(const std::string& text) {
  std::set<int> seen;
  for (const std::string& part : Split(text, ',')) {
    int number = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--gpu: '", text, "' is not 'all' or numbers separated by commas, such as 0,1"));
    }
    if (!seen.insert(number).second) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--gpu: ", number, " is there twice in '", text, "'"));
    }
  }
}

}  // namespace

void RefuseGpuFlag() {
  if (FLAGS_gpu.empty()) return;
  if (FLAGS_gpu != "all") CheckNumbers(FLAGS_gpu);
  Fail(ErrorCode::kDeviceFailure,
       StrCat("--gpu=", FLAGS_gpu,
              ": this version trains on the CPU only; leave --gpu out (--threads says on how many "
              "processors)"));
}

}  // namespace crema::tools
