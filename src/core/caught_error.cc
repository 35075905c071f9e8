#include "core/caught_error.h"

#include <new>
#include <system_error>

#include "core/strings.h"

namespace crema {
namespace {

// Converts a refusal of threads, descriptors or memory.
Error OfSystem(const std::system_error& error) {
  const std::error_code code = error.code();
  if (code == std::errc::resource_unavailable_try_again) {
    return Error({ErrorCode::kOutOfMemory,
                  {},
                  "a thread could not be started: use fewer threads, or raise the limit of threads "
                  "(ulimit -u, pids.max of the control group) or of memory (ulimit -v)"});
  }
  if (code == std::errc::too_many_files_open || code == std::errc::too_many_files_open_in_system) {
    return Error({ErrorCode::kOutOfMemory,
                  {},
                  StrCat("no file or connection can be opened any more (", error.what(),
                         "): raise the limit of descriptors (ulimit -n)")});
  }
  if (code == std::errc::not_enough_memory) {
    return Error({ErrorCode::kOutOfMemory, {}, StrCat("out of memory: ", error.what())});
  }
  return Error({ErrorCode::kInternal, {}, StrCat("internal error: ", error.what())});
}

}  // namespace

Error ErrorOf(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error({ErrorCode::kOutOfMemory, {}, "out of memory"});
  } catch (const std::system_error& error) {
    return OfSystem(error);
  } catch (const std::exception& error) {
    return Error({ErrorCode::kInternal, {}, StrCat("internal error: ", error.what())});
  }
}

}  // namespace crema
