// GET /openapi.json.
#pragma once

#include <string>

namespace crema::server {

// Returns a description of all routes in OpenAPI 3.0, generated from their table.
const std::string& OpenApiText();

}  // namespace crema::server
