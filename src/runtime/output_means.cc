#include "runtime/output_means.h"

#include <span>

#include "core/blob_types.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/session.h"

namespace crema {

bool HoldsVerdicts(const Plan& plan, int output) {
  const PlannedValue& value = plan.values[static_cast<size_t>(output)];
  return plan.layers[static_cast<size_t>(value.producer)].layer->param().type() ==
         "DetectionEvaluate";
}

void OutputMeans::Start(const Plan& plan, const std::vector<int>& outputs,
                        const PerSample& per_sample) {
  outputs_.clear();
  for (int v : outputs) {
    if (HoldsVerdicts(plan, v)) continue;
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    outputs_.push_back({.blob = value.name,
                        .loss_weight = value.loss_weight,
                        .per_sample = per_sample(value),
                        .sums = {}});
  }
}

void OutputMeans::Add(const Session& session, int64_t samples) {
  for (Output& output : outputs_) {
    AddTo(&output, *HostView(session, session.Data(output.blob)), samples);
  }
}

void OutputMeans::AddTo(Output* output, const ConstTensorView& blob, int64_t samples) {
  const auto count = static_cast<size_t>(blob.count());
  // The first batch determines the number of elements; a plan has only their maximum.
  const size_t rows = output->per_sample ? static_cast<size_t>(samples) : 1;
  output->large = count / rows > static_cast<size_t>(kMostReportedElements);
  if (output->large) return;
  if (output->weight == 0) output->sums.assign(count / rows, 0);
  const bool whole = !output->per_sample || blob.shape()[0] == samples;
  output->changes = output->changes || !whole || count != output->sums.size() * rows;
  output->weight += static_cast<double>(samples);
  if (output->changes) return;
  const double weight = output->per_sample ? 1 : static_cast<double>(samples);
  DispatchBlob(blob.dtype(), [&]<typename T>(T) {
    const std::span<const T> data = blob.span<T>();
    for (size_t i = 0; i < count; ++i) {
      output->sums[i % output->sums.size()] += static_cast<double>(data[i]) * weight;
    }
  });
}

std::vector<EvaluatedOutput> OutputMeans::Means() const {
  std::vector<EvaluatedOutput> means;
  for (const Output& output : outputs_) {
    if (output.changes || output.large) continue;
    for (size_t i = 0; i < output.sums.size(); ++i) {
      means.push_back({output.blob, static_cast<int64_t>(i), output.sums[i] / output.weight,
                       output.loss_weight});
    }
  }
  return means;
}

std::vector<std::string> OutputMeans::LeftOut() const {
  std::vector<std::string> names;
  for (const Output& output : outputs_) {
    if (output.changes) names.push_back(output.blob);
  }
  return names;
}

std::string DescribeLeftOut(const std::string& blob) {
  return StrCat("output '", blob,
                "' has another size in some batches, so that its elements have no means; it is "
                "left out");
}

}  // namespace crema
