// CUDA libraries that are loaded at the first use: linked, they would slow the start of each
// command, and programs would not start if one is missing.
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

// An open library; it stays open after destruction.
class SharedLibrary {
 public:
  // `name` is for messages: "cuDNN". Throws kDeviceFailure with the loader's message.
  SharedLibrary(std::string name, std::string file)
      : name_(std::move(name)),
        file_(std::move(file)),
        library_(dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) Refuse();
  }

  // Throws kDeviceFailure if it has no function of that name.
  template <typename Function>
  void Find(const char* symbol, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (*function == nullptr) Refuse();
  }

 private:
  [[noreturn]] void Refuse() const {
    const char* reason = dlerror();
    Fail(ErrorCode::kDeviceFailure,
         StrCat(name_, " cannot be loaded: ", reason == nullptr ? file_ : reason,
                "; name its folder in LD_LIBRARY_PATH"));
  }

  const std::string name_;
  const std::string file_;
  void* const library_;
};

}  // namespace crema
