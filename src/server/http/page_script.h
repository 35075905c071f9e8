// The script of the page (HttpApi's GET /).
#pragma once

#include <string_view>

namespace crema::server {

std::string_view PageScript();

}  // namespace crema::server
