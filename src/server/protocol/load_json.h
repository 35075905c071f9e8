// The parameters of a request to load a model.
#pragma once

#include <string_view>

namespace crema::server {

// Throws kBadRequest for the parameters that bring a model's configuration or files along:
// "config" and "file:PATH". A model is loaded from its folder only.
void CheckLoadParameter(std::string_view name);

// Checks the parameters of a body like {"parameters":{"name":...}}; an empty one has none. Throws
// kBadRequest, also for a body that is no JSON object.
void CheckLoadBody(std::string_view body);

}  // namespace crema::server
