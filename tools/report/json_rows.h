// Flat JSON objects, as our own files hold them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// Members as text: strings as they are, numbers printed, true and false in words, null and objects
// left out, an array of strings joined by spaces.
using JsonMembers = std::map<std::string, std::string>;

// Nothing for what is not a JSON object.
std::optional<JsonMembers> ParseJsonMembers(std::string_view text);

// The members of the object `name` within an object; empty when there is none.
JsonMembers JsonMembersOf(std::string_view text, const std::string& name);

}  // namespace crema::tools
