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

// Returns the names of the compared implementations of a type, in order: those for the CPU with
// their own code, and kAnyFormatImplementation if one of its samples has LayerInfo::any_format.
// Those in lower precision have tests with their own tolerances.
std::vector<std::string> ImplementationsOf(const LayerType& type);

enum class Gradients : uint8_t { kNone, kParameters, kAll };

// Runs the case with all implementations that support it. Returns their faults, with everything
// that is needed to repeat the case. Counts the runs in `reached`. The reference is native code in
// f64.
std::vector<std::string> CompareImplementations(const LayerType& type,
                                                const ImplementationCase& implementation_case,
                                                int threads, Gradients wanted,
                                                std::map<std::string, int>* reached);

}  // namespace crema::test
