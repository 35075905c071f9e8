// The body of a request for the repository's index.
#pragma once

#include <string_view>

namespace crema::server {

// Whether it asks for models that are ready only: {"ready":true}. An empty body asks for all.
// Throws kBadRequest for what is no JSON object, or too deep.
bool AsksForReady(std::string_view body);

}  // namespace crema::server
