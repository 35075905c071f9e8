// SHA-256 (FIPS 180-4), to identify files.
#pragma once

#include <string>
#include <string_view>

namespace crema {

// Returns 64 hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace crema
