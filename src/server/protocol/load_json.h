// Checks the parameters of a request to load a model.
#pragma once

#include <string_view>

namespace crema::server {

// Throws kBadRequest for parameters that supply a model's configuration or files: "config" and
// "file:PATH". Models are loaded from their folder only.
void CheckLoadParameter(std::string_view name);

// Checks the parameters of a body like {"parameters":{"name":...}}; an empty body has none. Throws
// kBadRequest, also if the body is not a JSON object.
void CheckLoadBody(std::string_view body);

}  // namespace crema::server
