#include "math/library_versions.h"

#ifdef CREMA_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include "core/strings.h"

namespace crema {

std::string LibraryVersions() {
#ifdef CREMA_HAVE_ONEDNN
  const dnnl_version_t& version = *dnnl_version();
  return StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch);
#else
  return "none";
#endif
}

}  // namespace crema
