// Reads the bodies of requests to the model repository.
#pragma once

#include <string_view>

namespace crema::server {

// Throws kBadRequest for parameters that supply a model's configuration or files: "config" and
// "file:PATH". Models are loaded from their folder only.
void CheckLoadParameter(std::string_view name);

// Checks the parameters of a body like {"parameters":{"name":...}}; an empty body has none. Throws
// kBadRequest, also if the body is not a JSON object.
void CheckLoadBody(std::string_view body);

// Returns true if only ready models are requested: {"ready":true}. An empty body requests all.
// Throws kBadRequest if the body is not a JSON object, or nested too deeply.
bool AsksForReady(std::string_view body);

}  // namespace crema::server
