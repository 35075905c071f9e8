// Compares the implementations with the native methods.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "implementations/implementation_cases.h"

namespace crema::test {

// The native methods on blocked blobs, named as if they were an implementation.
inline constexpr const char* kAnyFormatImplementation = "native, any format";

// Names of what of a type is compared here, in order: its CPU implementations with code of their
// own, and kAnyFormatImplementation where one of its samples says LayerInfo::any_format. Rows in
// lower precision are left to tests with tolerances of their own.
std::vector<std::string> ImplementationsOf(const LayerType& type);

enum class Gradients : uint8_t { kNone, kParameters, kAll };

// Runs the case with all that supports it and returns what is wrong, with all that is needed to
// run it again; counts in `reached` what ran. The reference is native code in f64.
std::vector<std::string> CompareImplementations(const LayerType& type,
                                                const ImplementationCase& implementation_case,
                                                int threads, Gradients wanted,
                                                std::map<std::string, int>* reached);

}  // namespace crema::test
