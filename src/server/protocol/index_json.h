// Parses the body of a repository index request.
#pragma once

#include <string_view>

namespace crema::server {

// Returns true if only ready models are requested: {"ready":true}. An empty body requests all.
// Throws kBadRequest if the body is not a JSON object, or nested too deeply.
bool AsksForReady(std::string_view body);

}  // namespace crema::server
