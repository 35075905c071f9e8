// GET /openapi.json.
#pragma once

#include <string>

namespace crema::server {

// A description of all routes in OpenAPI 3.0, made from their table.
const std::string& OpenApiText();

}  // namespace crema::server
