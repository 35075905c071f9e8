// Exceptions of libraries and of the system, as errors.
#pragma once

#include <exception>

#include "core/error.h"

namespace crema {

// Returns the exception as an Error: an Error as it is, a lack of memory, threads or descriptors as
// kOutOfMemory with the limit to raise, others as kInternal. Rethrows what is no std::exception.
// Thread safety: any.
Error ErrorOf(const std::exception_ptr& exception);

}  // namespace crema
