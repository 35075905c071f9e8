#include "common/weights_flags.h"

#include <gflags/gflags.h>

#include "common/models_folder.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_string(
    on_mismatch, "error",
    "[Run error|skip|reshape] layers whose blobs have another shape in the weights file: error; "
    "skip: they, and layers that "
    "the file lacks, keep their fillers; reshape: take as many values under the net's shape");

namespace crema::tools {
namespace {

OnMismatch MismatchOfFlag() {
  if (FLAGS_on_mismatch == "error") return OnMismatch::kError;
  if (FLAGS_on_mismatch == "skip") return OnMismatch::kSkip;
  if (FLAGS_on_mismatch == "reshape") return OnMismatch::kReshape;
  const std::vector<std::string> known = {"error", "skip", "reshape"};
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--on_mismatch: '", FLAGS_on_mismatch, "' is not one of error, skip, reshape",
              DidYouMean(FLAGS_on_mismatch, known)));
}

}  // namespace

WeightsFiles WeightsOfFlags(const std::vector<std::string>& entries, MissingLayers missing) {
  WeightsFiles files{.paths = {}, .on_mismatch = MismatchOfFlag(), .missing = missing};
  for (const std::string& entry : entries) {
    for (const std::string& path : Split(entry, ',')) {
      if (Trim(path).empty()) continue;
      files.paths.push_back(ResolveZooFile(std::string(Trim(path)), ".caffemodel"));
    }
  }
  return files;
}

}  // namespace crema::tools
