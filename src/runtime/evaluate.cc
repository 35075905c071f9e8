#include "runtime/evaluate.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "graph/replace_sources.h"
#include "runtime/session.h"

namespace crema {
namespace {

class Evaluator {
 public:
  Evaluator(const NetFile& file, const Registry& registry, const EvaluationOptions& options)
      : file_(file), registry_(registry), options_(options) {
    if (options_.threads <= 0) options_.threads = AvailableProcessors();
    state_.set_phase(TEST);
    state_.MergeFrom(file.net.state());
    state_.set_phase(TEST);
    state_.set_level(options.level);
    for (const std::string& stage : options.stages) state_.add_stage(stage);
  }

  using Load = std::function<void(const Plan&, Weights*)>;

  Evaluation Run(const Load& load) {
    std::shared_ptr<Weights> weights;
    std::unique_ptr<Session> session = Open(file_.net, nullptr, &weights);
    load(session->plan(), weights.get());
    if (options_.iterations > 0) {
      const int64_t batch = std::max<int64_t>(1, FirstBatch(session->plan()));
      for (int64_t i = 0; i < options_.iterations; ++i) RunBatch(session.get(), batch);
      return Finish();
    }
    const Epoch epoch = EpochOf(session.get());
    for (int64_t i = 0; i < epoch.samples / epoch.batch; ++i) RunBatch(session.get(), epoch.batch);
    const int64_t rest = epoch.samples % epoch.batch;
    if (rest > 0) RunRest(*session, *weights, rest);
    return Finish();
  }

 private:
  std::unique_ptr<Session> Open(const NetParameter& net, const Weights* shared,
                                std::shared_ptr<Weights>* weights) {
    std::vector<Problem> warnings = file_.warnings;
    const auto plan =
        MakePlan(net, file_.source, state_, registry_,
                 {.threads = options_.threads, .backward = false, .optimize = !options_.keep_blobs},
                 &warnings);
    if (options_.log != nullptr && shared == nullptr) {
      for (const Problem& warning : warnings) {
        options_.log->Write(Severity::kWarning, ToString(warning));
      }
    }
    *weights = shared == nullptr ? Weights::Make(*plan, 1) : Weights::ShareWith(*plan, *shared, 1);
    return std::make_unique<Session>(plan, *weights, ExecContext(options_.threads, 1));
  }

  struct Epoch {
    int64_t samples = 0;
    int64_t batch = 0;
  };

  static int64_t BatchOf(const Plan& plan, const PlannedLayer& layer) {
    if (layer.outputs.empty()) return 0;
    const Shape& shape = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
    return shape.axes() > 0 ? shape[0] : 0;
  }

  // Of the first layer that has no inputs.
  static int64_t FirstBatch(const Plan& plan) {
    for (const PlannedLayer& layer : plan.layers) {
      if (layer.inputs.empty()) return BatchOf(plan, layer);
    }
    return 1;
  }

  // One pass over the sources of the net, which must agree on what that is.
  static Epoch EpochOf(Session* session) {
    Epoch epoch;
    for (size_t i = 0; i < session->plan().layers.size(); ++i) {
      const LayerSessionState* state = session->state(i);
      if (state == nullptr || state->EpochSize() == 0) continue;
      const int64_t batch = BatchOf(session->plan(), session->plan().layers[i]);
      if (epoch.samples == 0) epoch = {state->EpochSize(), batch};
      if (epoch.samples != state->EpochSize() || epoch.batch != batch) {
        Fail(ErrorCode::kInvalidArgument,
             "the data layers of the TEST phase have different numbers of samples or batch sizes; "
             "say how many batches with --iterations");
      }
    }
    if (epoch.samples == 0 || epoch.batch == 0) {
      Fail(ErrorCode::kInvalidArgument,
           "no layer of the TEST phase reads a data set with an end; say how many batches with "
           "--iterations");
    }
    return epoch;
  }

  // Where the elements of one output of the net stand in the result.
  struct OutputRange {
    std::string blob;
    size_t first = 0;
    size_t count = 0;
    bool per_sample = false;  // the first axis is the batch, and is averaged over too
    double weight = 0;        // samples so far
  };

  // What a data layer gives and nobody reads (a label) is no result.
  static bool IsResult(const Plan& plan, int v) {
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    return !plan.layers[static_cast<size_t>(value.producer)].inputs.empty();
  }

  void PrepareOutputs(const Plan& plan, int64_t batch) {
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

  void RunBatch(Session* session, int64_t batch) {
    if (result_.batches == 0) PrepareOutputs(session->plan(), batch);
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

  // The last, smaller batch: the same net planned for fewer samples, reading on where we are.
  void RunRest(const Session& session, const Weights& weights, int64_t rest) {
    NetParameter net = file_.net;
    for (LayerParameter& layer : *net.mutable_layer()) {
      SetBatchSize(static_cast<uint32_t>(rest), &layer);
    }
    std::shared_ptr<Weights> shared;
    const std::unique_ptr<Session> last = Open(net, &weights, &shared);
    SolverState position;
    session.SaveState("evaluate", &position);
    last->RestoreState("evaluate", position);
    RunBatch(last.get(), rest);
  }

  Evaluation Finish() {
    for (const OutputRange& range : ranges_) {
      for (size_t i = 0; i < range.count; ++i)
        result_.outputs[range.first + i].mean /= range.weight;
    }
    result_.loss /= static_cast<double>(result_.samples);
    return std::move(result_);
  }

  const NetFile& file_;
  const Registry& registry_;
  EvaluationOptions options_;
  NetState state_;
  Evaluation result_;
  std::vector<OutputRange> ranges_;
};

}  // namespace

Evaluation Evaluate(const NetFile& net, const NetParameter& model, const std::string& model_path,
                    const Registry& registry, const EvaluationOptions& options) {
  return Evaluator(net, registry, options).Run([&](const Plan& plan, Weights* weights) {
    const LoadReport report = weights->Load(plan, model, model_path, MissingLayers::kError);
    if (options.log != nullptr) {
      options.log->Write(Severity::kInfo, DescribeLoad(report, model_path));
    }
  });
}

Evaluation Evaluate(const NetFile& net, const WeightsFiles& weights, const Registry& registry,
                    const EvaluationOptions& options) {
  return Evaluator(net, registry, options).Run([&](const Plan& plan, Weights* blobs) {
    LoadFiles(weights, plan, blobs, options.log);
  });
}

}  // namespace crema
