#include "core/processor.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

ProcessorLevel ReadLevel() {
  constexpr std::array<std::pair<std::string_view, ProcessorLevel>, 4> kLevels = {
      {{"baseline", ProcessorLevel::kBaseline},
       {"avx2", ProcessorLevel::kAvx2},
       {"avx512", ProcessorLevel::kAvx512},
       {"avx512bf16", ProcessorLevel::kAvx512BF16}}};
  const char* const name = std::getenv("CREMA_CPU");
  if (name == nullptr || *name == '\0') return ProcessorLevel::kAll;
  for (const auto& [level_name, level] : kLevels) {
    if (level_name == name) return level;
  }
  Fail(ErrorCode::kInvalidArgument, StrCat("the environment variable CREMA_CPU is '", name,
                                           "'; expected baseline, avx2, avx512 or avx512bf16"));
}

ProcessorFeatures ReadFeatures() {
  ProcessorFeatures features;
#if defined(__x86_64__) && defined(__GNUC__)
  const ProcessorLevel allowed = AllowedLevel();
  features.avx2 = allowed >= ProcessorLevel::kAvx2 && __builtin_cpu_supports("avx2") &&
                  __builtin_cpu_supports("fma");
  features.avx512 = features.avx2 && allowed >= ProcessorLevel::kAvx512 &&
                    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  const bool newer = features.avx512 && allowed >= ProcessorLevel::kAvx512BF16;
  features.avx512_vnni = newer && __builtin_cpu_supports("avx512vnni");
  features.avx512_bf16 = newer && __builtin_cpu_supports("avx512bf16");
#endif
  return features;
}

}  // namespace

ProcessorLevel AllowedLevel() {
  static const ProcessorLevel level = ReadLevel();
  return level;
}

const ProcessorFeatures& Processor() {
  static const ProcessorFeatures features = ReadFeatures();
  return features;
}

}  // namespace crema
