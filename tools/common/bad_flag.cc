#include "common/bad_flag.h"

#include <gflags/gflags.h>

#include "core/error.h"
#include "core/strings.h"

DEFINE_string(
    on_bad, "error",
    "[Run error|skip] an image or record that cannot be used: error, or skip (as in Caffe)");

namespace crema::tools {

bool SkipsBad() {
  if (FLAGS_on_bad != "error" && FLAGS_on_bad != "skip") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--on_bad: '", FLAGS_on_bad, "' is not error or skip"));
  }
  return FLAGS_on_bad == "skip";
}

}  // namespace crema::tools
