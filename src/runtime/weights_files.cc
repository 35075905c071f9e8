#include "runtime/weights_files.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/caffemodel.h"

namespace crema {
namespace {

void FailWhereMissing(const LoadReport& report, const std::string& files) {
  std::vector<Problem> problems;
  for (const std::string& layer : report.at_fillers) {
    problems.push_back({ErrorCode::kInvalidArgument,
                        {.file = files, .layer = layer},
                        StrCat("none of the files has blobs for this layer",
                               DidYouMean(layer, report.not_in_net))});
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

}  // namespace

LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log) {
  const bool is_single = files.paths.size() == 1;
  LoadReport all;
  for (const std::string& path : files.paths) {
    const LoadReport report =
        weights->Load(plan, ReadCaffemodel(path), path,
                      is_single ? files.missing : MissingLayers::kKeep, files.on_mismatch);
    const bool whole =
        report.at_fillers.empty() && report.not_in_net.empty() && report.skipped.empty();
    if (log != nullptr) {
      log->Write(whole ? Severity::kInfo : Severity::kWarning, DescribeLoad(report, path));
    }
    MergeInto(&all, report);
  }
  weights->FillRest(plan);
  const std::string names = Join(files.paths, ", ");
  if (files.missing == MissingLayers::kError && files.on_mismatch != OnMismatch::kSkip) {
    FailWhereMissing(all, names);
  }
  const std::string warning = files.paths.empty() ? "" : LoadWarning(all, names);
  if (log != nullptr && !warning.empty()) log->Write(Severity::kWarning, warning);
  return all;
}

}  // namespace crema
