#include "solvers/update_rule.h"

#include <algorithm>
#include <array>

namespace crema {

std::span<const UpdateRule> UpdateRules() {
  static const std::array<UpdateRule, 1> rules = {SgdRule()};
  return rules;
}

const UpdateRule* FindUpdateRule(const std::string& name) {
  const std::span<const UpdateRule> rules = UpdateRules();
  const auto found = std::ranges::find(rules, name, &UpdateRule::name);
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace crema
