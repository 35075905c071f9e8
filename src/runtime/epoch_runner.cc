#include "runtime/epoch_runner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "graph/replace_sources.h"

namespace crema {
namespace {

int64_t BatchOf(const Plan& plan, const PlannedLayer& layer) {
  if (layer.outputs.empty()) return 0;
  const Shape& shape = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
  return shape.axes() > 0 ? shape[0] : 0;
}

// What a data layer gives and nobody reads (a label) is no result.
bool IsResult(const Plan& plan, int v) {
  const PlannedValue& value = plan.values[static_cast<size_t>(v)];
  return !plan.layers[static_cast<size_t>(value.producer)].inputs.empty();
}

}  // namespace

int64_t FirstBatch(const Plan& plan) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.inputs.empty()) return std::max<int64_t>(1, BatchOf(plan, layer));
  }
  return 1;
}

DataEpoch EpochOf(const Session& session, const std::string& advice) {
  const Plan& plan = session.plan();
  const std::string phase = Phase_Name(plan.state.phase());
  DataEpoch epoch;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerSessionState* state = session.state(i);
    const int64_t samples = state == nullptr ? 0 : state->EpochSize();
    if (samples == 0) continue;
    const int64_t batch = BatchOf(plan, plan.layers[i]);
    if (epoch.samples == 0) epoch = {samples, batch};
    if (epoch.samples != samples || epoch.batch != batch) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the data layers of the ", phase,
                  " phase have different numbers of samples or batch sizes; ", advice));
    }
  }
  if (epoch.samples == 0 || epoch.batch == 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("no layer of the ", phase, " phase reads a data set with an end; ", advice));
  }
  return epoch;
}

Evaluation EpochRunner::RunBatches(int64_t batches) {
  const int64_t batch = FirstBatch(session_->plan());
  Start(batch);
  for (int64_t i = 0; i < batches; ++i) RunBatch(session_, batch);
  return Finish();
}

Evaluation EpochRunner::RunEpoch() {
  const DataEpoch epoch = EpochOf(*session_, options_.advice);
  Start(epoch.batch);
  for (int64_t i = 0; i < epoch.samples / epoch.batch; ++i) RunBatch(session_, epoch.batch);
  const int64_t rest = epoch.samples % epoch.batch;
  if (rest > 0) RunRest(rest);
  return Finish();
}

void EpochRunner::Start(int64_t batch) {
  result_ = {};
  ranges_.clear();
  const Plan& plan = session_->plan();
  for (int v : plan.outputs) {
    if (!IsResult(plan, v)) continue;
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    const Shape& shape = value.spec.shape;
    const bool per_sample = shape.axes() > 1 && shape[0] == batch;
    const auto count = static_cast<size_t>(per_sample ? shape.count(1) : shape.count());
    ranges_.push_back({value.name, result_.outputs.size(), count, per_sample, 0});
    for (size_t i = 0; i < count; ++i) {
      result_.outputs.push_back({value.name, static_cast<int64_t>(i), 0, value.loss_weight});
    }
  }
}

void EpochRunner::RunBatch(Session* session, int64_t batch) {
  result_.loss += session->Forward() * static_cast<double>(batch);
  result_.samples += batch;
  ++result_.batches;
  if (options_.on_batch) options_.on_batch(*session, batch);
  for (OutputRange& range : ranges_) {
    const std::span<const float> data = session->Data(range.blob).span<float>();
    // In the smaller last batch, one value a sample without further axes is another size.
    if (data.size() != range.count * static_cast<size_t>(range.per_sample ? batch : 1)) continue;
    range.weight += static_cast<double>(batch);
    const double weight = range.per_sample ? 1 : static_cast<double>(batch);
    for (size_t i = 0; i < data.size(); ++i) {
      result_.outputs[range.first + i % range.count].mean += data[i] * weight;
    }
  }
}

// The same net planned for fewer samples, reading on where we are.
void EpochRunner::RunRest(int64_t rest) {
  if (rest_ == nullptr || rest_samples_ != rest) {
    NetParameter net = net_;
    for (LayerParameter& layer : *net.mutable_layer()) {
      SetBatchSize(static_cast<uint32_t>(rest), &layer);
    }
    rest_ = options_.open(net);
    rest_samples_ = rest;
  }
  SolverState position;
  session_->SaveState("rest", &position);
  rest_->RestoreState("rest", position);
  rest_->set_step(session_->step());
  RunBatch(rest_.get(), rest);
}

Evaluation EpochRunner::Finish() {
  for (const OutputRange& range : ranges_) {
    for (size_t i = 0; i < range.count; ++i) result_.outputs[range.first + i].mean /= range.weight;
  }
  result_.loss /= static_cast<double>(result_.samples);
  return std::move(result_);
}

}  // namespace crema
