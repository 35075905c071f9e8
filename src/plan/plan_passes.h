// Names of the passes of a plan.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace crema {

struct NamedPass {
  std::string_view name;
  bool PlanPasses::*on;
};

inline constexpr auto kNamedPasses = std::to_array<NamedPass>({
    {"upload_bytes", &PlanPasses::upload_bytes},
    {"move_strides", &PlanPasses::move_strides},
    {"memory_formats", &PlanPasses::memory_formats},
    {"fuse", &PlanPasses::fuse},
    {"share_memory", &PlanPasses::share_memory},
    {"optimized_implementations", &PlanPasses::optimized_implementations},
});
static_assert(sizeof(PlanPasses) == kNamedPasses.size() * sizeof(bool), "each pass has a name");

// Parses comma-separated words, applied in order to all passes enabled: "all", "none", "-NAME",
// "+NAME". "-fuse" is all passes but that one, "none,+fuse" is that one alone. Throws
// kInvalidArgument with the valid names for anything else.
PlanPasses ParsePasses(const std::string& text);

}  // namespace crema
