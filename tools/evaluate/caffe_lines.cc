#include "evaluate/caffe_lines.h"

#include <string>

#include "core/blob_types.h"
#include "core/strings.h"
#include "runtime/output_means.h"
#include "solvers/caffe_log.h"

namespace crema::tools {

void CaffeLines::OnBatch(const Session& session) {
  if (batch_ == 0) log_.Write(Severity::kInfo, StrCat("Running for ", iterations_, " iterations."));
  const Plan& plan = session.plan();
  for (const int output : plan.outputs) {
    const PlannedValue& value = plan.values[static_cast<size_t>(output)];
    const bool is_data = plan.layers[static_cast<size_t>(value.producer)].inputs.empty();
    if (is_data || HoldsVerdicts(plan, output)) continue;
    const std::string& name = value.name;
    const HostView blob(session, session.Data(name));
    DispatchBlob(blob->dtype(), [&]<typename T>(T) {
      for (const T element : blob->span<T>()) {
        log_.Write(Severity::kInfo,
                   StrCat("Batch ", batch_, ", ", name, " = ", static_cast<double>(element)));
      }
    });
  }
  ++batch_;
}

void CaffeLines::OnEnd(const Evaluation& result) {
  log_.Write(Severity::kInfo, StrCat("Loss: ", result.loss));
  for (const EvaluatedOutput& output : result.outputs) {
    log_.Write(Severity::kInfo,
               DescribeOutput(
                   {.blob = output.blob, .value = output.mean, .loss_weight = output.loss_weight}));
  }
}

}  // namespace crema::tools
