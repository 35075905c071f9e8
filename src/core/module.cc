#include "core/module.h"

#include <dlfcn.h>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

void* SymbolOfModule(const char* file, const char* symbol) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void* address = library == nullptr ? nullptr : dlsym(library, symbol);
  if (address != nullptr) return address;
  const char* reason = dlerror();
  Fail(ErrorCode::kUnsupported,
       StrCat("a part of Crema cannot be loaded: ", reason == nullptr ? file : reason,
              ". If it is a library of OpenCV, install that (Debian: libopencv-imgcodecs-dev, "
              "libopencv-videoio-dev); JPEG files need none. If it is libcrema_*.so, install the "
              "Debian package libcrema-images or libcrema-video; otherwise it lies beside "
              "libcrema: name the folder in LD_LIBRARY_PATH, or link the program with -Wl,-rpath"));
}

}  // namespace crema
