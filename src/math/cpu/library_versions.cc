#include "math/library_versions.h"

#include <cblas.h>
#ifdef CREMA_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include "core/strings.h"

namespace crema {

std::string LibraryVersions() {
  const std::string blas = openblas_get_config();
#ifdef CREMA_HAVE_ONEDNN
  const dnnl_version_t& version = *dnnl_version();
  return StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch, ", ", Trim(blas));
#else
  return std::string(Trim(blas));
#endif
}

}  // namespace crema
