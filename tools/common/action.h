// Commands with several actions: deploy, weights, zoo.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {

// Takes the first of the words, the name of an action, and returns the action. `actions` have a
// `name`; `arguments` follow the names in the message for no words. Throws kInvalidArgument.
template <typename Actions>
const auto& TakeAction(const char* command, const Actions& actions, const char* arguments,
                       std::vector<std::string>* words) {
  std::vector<std::string> known;
  for (const auto& action : actions) known.emplace_back(action.name);
  if (words->empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("name an action: ", command, " ", Join(known, "|"), arguments, "; see --help"));
  }
  const std::string wanted = words->front();
  words->erase(words->begin());
  const auto found = std::ranges::find(known, wanted);
  if (found == known.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("unknown action '", wanted, "'", DidYouMean(wanted, known),
                "; this version has: ", Join(known, " ")));
  }
  return actions[static_cast<size_t>(found - known.begin())];
}

}  // namespace crema::tools
