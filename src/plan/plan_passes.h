// The passes of a plan by name.
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

inline constexpr std::array<NamedPass, 8> kNamedPasses = {{
    {"upload_bytes", &PlanPasses::upload_bytes},
    {"fuse_relu", &PlanPasses::fuse_relu},
    {"move_strides", &PlanPasses::move_strides},
    {"memory_formats", &PlanPasses::memory_formats},
    {"fuse", &PlanPasses::fuse},
    {"fuse_batch_norm", &PlanPasses::fuse_batch_norm},
    {"share_memory", &PlanPasses::share_memory},
    {"optimized_implementations", &PlanPasses::optimized_implementations},
}};

// Words with commas between them, in order, starting from all passes: "all", "none", "-NAME",
// "+NAME". "-fuse" is all but that one, "none,+fuse" that one alone. Throws kInvalidArgument
// for anything else and says which names there are.
PlanPasses ParsePasses(const std::string& text);

}  // namespace crema
