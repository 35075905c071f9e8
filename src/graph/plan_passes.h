// The passes of a plan by name.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "graph/plan.h"

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
    {"absorb", &PlanPasses::absorb},
    {"hand_statistics", &PlanPasses::hand_statistics},
    {"share_memory", &PlanPasses::share_memory},
    {"optimized_rows", &PlanPasses::optimized_rows},
}};

// Words with commas between them, in order, starting from all passes: "all", "none", "-NAME",
// "+NAME". "-absorb" is all but that one, "none,+absorb" that one alone. Throws kInvalidArgument
// for anything else and says which names there are.
PlanPasses ParsePasses(const std::string& text);

}  // namespace crema
