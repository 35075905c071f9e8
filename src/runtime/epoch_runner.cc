#include "runtime/epoch_runner.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/replace_sources.h"
#include "plan/passes/upload_bytes.h"
#include "runtime/session.h"

namespace crema {
namespace {

int64_t BatchOf(const Plan& plan, const PlannedLayer& layer) {
  if (layer.outputs.empty()) return 0;
  const Shape& shape = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
  return shape.axes() > 0 ? shape[0] : 0;
}

// Returns the shape of an output, which exists in every plan of the same net.
const Shape& ShapeOf(const Plan& plan, const std::string& blob) {
  const auto found = std::ranges::find_if(
      plan.outputs, [&](int v) { return plan.values[static_cast<size_t>(v)].name == blob; });
  CREMA_CHECK(found != plan.outputs.end());
  return plan.values[static_cast<size_t>(*found)].spec.shape;
}

// An unused output of a data layer (a label) is not a result.
bool IsResult(const Plan& plan, int v) {
  const PlannedValue& value = plan.values[static_cast<size_t>(v)];
  const PlannedLayer& producer = plan.layers[static_cast<size_t>(value.producer)];
  return !producer.inputs.empty() && !IsOfUploadBytes(plan, producer);
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
                  " phase differ in their number of samples or batch size; ", advice));
    }
  }
  if (epoch.samples == 0 || epoch.batch == 0) {
    const bool is_deploy_net = std::ranges::any_of(
        plan.layers, [](const PlannedLayer& layer) { return layer.type->name == "Input"; });
    if (is_deploy_net) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("this net reads no data set: its data come from an Input layer; give the net for "
                  "training, or ",
                  advice));
    }
    Fail(ErrorCode::kInvalidArgument,
         StrCat("no layer of the ", phase, " phase reads a data set with an end; ", advice));
  }
  return epoch;
}

bool CanMoveByBatches(const Session& session) {
  for (size_t i = 0; i < session.plan().layers.size(); ++i) {
    if (session.state(i) != nullptr && !session.state(i)->IsPosition()) return false;
  }
  try {
    return EpochOf(session, "").samples > 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return false;
  }
}

void MoveByBatches(int64_t batches, Session* session) {
  if (batches == 0) return;
  const auto samples = static_cast<uint64_t>(batches * FirstBatch(session->plan()));
  SolverState state;
  session->SaveState("", &state);
  for (LayerState& layer : *state.mutable_layer_state()) {
    layer.set_position(layer.position() + samples);
  }
  session->RestoreState("", state);
  session->set_step(session->step() + static_cast<uint64_t>(batches));
}

Evaluation EpochRunner::RunBatches(int64_t batches) {
  const int64_t batch = FirstBatch(session_->plan());
  Start(batch, nullptr);
  for (int64_t i = 0; i < batches; ++i) RunBatch(session_, batch);
  return Finish();
}

Evaluation EpochRunner::RunEpoch(const RankPlace& own) {
  const DataEpoch epoch = EpochOf(*session_, options_.advice);
  const int64_t rest = epoch.samples % epoch.batch;
  const Plan* smaller = rest > 0                       ? &Smaller(rest)->plan()
                        : HasRowOfNumbers(epoch.batch) ? TrySmaller()
                                                       : nullptr;
  Start(epoch.batch, smaller);
  const BatchPart part = PartOf(epoch.samples / epoch.batch, own);
  MoveByBatches(part.first, session_);
  for (int64_t i = part.first; i < part.end; ++i) RunBatch(session_, epoch.batch);
  if (rest > 0 && own.rank + 1 == own.ranks) RunRest(rest);
  return Finish();
}

// An output has one row for each sample if its first axis is as long as the batch, also in a net of
// smaller batches. Without such a net, a blob of one axis may be one number for each class instead.
void EpochRunner::Start(int64_t batch, const Plan* smaller) {
  session_->TakeWeights();  // they may have changed since construction
  result_ = {};
  const Plan& plan = session_->plan();
  std::vector<int> results;
  for (int v : plan.outputs) {
    if (IsResult(plan, v)) results.push_back(v);
  }
  means_.Start(plan, results, [&](const PlannedValue& value) {
    const Shape& shape = value.spec.shape;
    if (shape.axes() < 1 || shape[0] != batch) return false;
    if (smaller == nullptr) return shape.axes() > 1;
    const Shape& less = ShapeOf(*smaller, value.name);
    return less.axes() == shape.axes() && less[0] == rest_samples_;
  });
}

void EpochRunner::RunBatch(Session* session, int64_t batch) {
  result_.loss += ForwardAndWarn(session, options_.log) * static_cast<double>(batch);
  result_.samples += batch;
  ++result_.batches;
  if (options_.on_batch) options_.on_batch(*session, batch);
  means_.Add(*session, batch);
}

bool EpochRunner::HasRowOfNumbers(int64_t batch) const {
  const Plan& plan = session_->plan();
  return batch > 1 && std::ranges::any_of(plan.outputs, [&](int v) {
           const Shape& shape = plan.values[static_cast<size_t>(v)].spec.shape;
           return IsResult(plan, v) && shape.axes() == 1 && shape[0] == batch;
         });
}

// Returns a plan for comparison; null if the net cannot be planned, because its text has the batch
// size elsewhere too.
const Plan* EpochRunner::TrySmaller() {
  try {
    return &Smaller(1)->plan();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return nullptr;
  }
}

// Returns the same net planned for fewer samples.
Session* EpochRunner::Smaller(int64_t samples) {
  if (rest_ == nullptr || rest_samples_ != samples) {
    NetParameter net = net_;
    for (LayerParameter& layer : *net.mutable_layer()) {
      SetBatchSize(static_cast<uint32_t>(samples), &layer);
    }
    rest_ = options_.open(net);
    rest_samples_ = samples;
  }
  return rest_.get();
}

// Runs the last samples from the current position.
void EpochRunner::RunRest(int64_t rest) {
  SolverState position;
  session_->SaveState("rest", &position);
  Smaller(rest)->RestoreState("rest", position);
  rest_->TakeWeights();
  rest_->set_step(session_->step());
  RunBatch(rest_.get(), rest);
}

Evaluation EpochRunner::Finish() {
  result_.outputs = means_.Means();
  result_.left_out = means_.LeftOut();
  if (result_.samples > 0) result_.loss /= static_cast<double>(result_.samples);
  return std::move(result_);
}

}  // namespace crema
