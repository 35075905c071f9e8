// Texts for ParsePasses: each pass alone left out, each alone done.
#pragma once

#include <string>
#include <vector>

#include "core/strings.h"
#include "plan/plan_passes.h"

namespace crema::test {

inline std::vector<std::string> PassVariants() {
  std::vector<std::string> variants = {"none"};
  for (const NamedPass& pass : kNamedPasses) {
    variants.push_back(StrCat("-", pass.name));
    variants.push_back(StrCat("none,+", pass.name));
  }
  return variants;
}

}  // namespace crema::test
