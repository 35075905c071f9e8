#ifdef __CUDACC__
#include <dlfcn.h>

#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cublas.h"

namespace crema {
namespace {

class Loader {
 public:
  Loader()
      : file_(StrCat("libcublas.so.", CUBLAS_VER_MAJOR)),
        library_(dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) Refuse();
  }

  template <typename Function>
  void Find(const char* symbol, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (*function == nullptr) Refuse();
  }

 private:
  [[noreturn]] void Refuse() const {
    const char* reason = dlerror();
    Fail(ErrorCode::kDeviceFailure,
         StrCat("GPUs need cuBLAS, which cannot be loaded: ", reason == nullptr ? file_ : reason,
                "; name its folder in LD_LIBRARY_PATH"));
  }

  const std::string file_;
  void* const library_;
};

CublasLibrary Load() {
  const Loader loader;
  CublasLibrary library{};
  // The names behind the macros of cublas_v2.h.
  loader.Find("cublasCreate_v2", &library.create);
  loader.Find("cublasDestroy_v2", &library.destroy);
  loader.Find("cublasSetStream_v2", &library.set_stream);
  loader.Find("cublasSetWorkspace_v2", &library.set_workspace);
  loader.Find("cublasGetStatusString", &library.status_string);
  loader.Find("cublasGetProperty", &library.property);
  loader.Find("cublasGemmEx_64", &library.gemm);
  loader.Find("cublasGemmStridedBatchedEx_64", &library.gemm_strided_batched);
  return library;
}

}  // namespace

const CublasLibrary& Cublas() {
  static const CublasLibrary library = Load();
  return library;
}

}  // namespace crema
#endif
