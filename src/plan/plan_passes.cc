#include "plan/plan_passes.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

PlanPasses AllPasses(bool on) {
  PlanPasses passes;
  for (const NamedPass& pass : kNamedPasses) passes.*pass.on = on;
  return passes;
}

[[noreturn]] void FailWord(const std::string& word) {
  std::vector<std::string> names;
  for (const NamedPass& pass : kNamedPasses) names.emplace_back(pass.name);
  const bool is_signed = word.starts_with('+') || word.starts_with('-');
  const std::string name = is_signed ? word.substr(1) : word;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("passes: '", word, "' is not all, none, +PASS or -PASS", DidYouMean(name, names),
              "; passes are: ", Join(names, " ")));
}

void Apply(const std::string& word, PlanPasses* passes) {
  if (word == "all" || word == "none") {
    *passes = AllPasses(word == "all");
    return;
  }
  const bool is_signed = word.starts_with('+') || word.starts_with('-');
  const auto found =
      std::ranges::find(kNamedPasses, is_signed ? word.substr(1) : "", &NamedPass::name);
  if (found == kNamedPasses.end()) FailWord(word);
  passes->*(found->on) = word[0] == '+';
}

}  // namespace

PlanPasses ParsePasses(const std::string& text) {
  PlanPasses passes = AllPasses(true);
  for (const std::string& word : Split(text, ',')) {
    if (!word.empty() || text.find(',') != std::string::npos) Apply(word, &passes);
  }
  return passes;
}

}  // namespace crema
