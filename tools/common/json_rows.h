// Parses flat JSON objects of our own files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// Members as text: strings unquoted, numbers printed, true and false as words, arrays of strings
// joined by spaces; without null and objects.
using JsonMembers = std::map<std::string, std::string>;

// Returns nothing unless the text is a JSON object.
std::optional<JsonMembers> ParseJsonMembers(std::string_view text);

// Returns the members of the nested object `name`; empty if there is none.
JsonMembers JsonMembersOf(std::string_view text, const std::string& name);

// Returns the texts of the list `name`; empty if there is none.
std::vector<std::string> JsonListOf(std::string_view text, const std::string& name);

}  // namespace crema::tools
