#include "runtime/evaluate.h"

#include <memory>
#include <utility>

#include "core/strings.h"
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

  Evaluation Run(const NetParameter& model, const std::string& model_path) {
    std::shared_ptr<Weights> weights;
    std::unique_ptr<Session> session = Open(file_.net, nullptr, &weights);
    const LoadReport report =
        weights->Load(session->plan(), model, model_path, MissingLayers::kError);
    if (options_.log != nullptr) {
      options_.log->Write(Severity::kInfo, DescribeLoad(report, model_path));
    }
    const int64_t batch = BatchOf(session->plan());
    if (options_.iterations > 0) {
      for (int64_t i = 0; i < options_.iterations; ++i) RunBatch(session.get(), batch);
      return Finish();
    }
    const int64_t samples = EpochOf(session.get());
    for (int64_t i = 0; i < samples / batch; ++i) RunBatch(session.get(), batch);
    if (samples % batch > 0) RunRest(*session, *weights, samples % batch);
    return Finish();
  }

 private:
  std::unique_ptr<Session> Open(const NetParameter& net, const Weights* shared,
                                std::shared_ptr<Weights>* weights) {
    std::vector<Problem> warnings = file_.warnings;
    const auto plan = MakePlan(net, file_.source, state_, registry_,
                               {.threads = options_.threads, .backward = false}, &warnings);
    if (options_.log != nullptr && shared == nullptr) {
      for (const Problem& warning : warnings) {
        options_.log->Write(Severity::kWarning, ToString(warning));
      }
    }
    *weights = shared == nullptr ? Weights::Make(*plan, 1) : Weights::ShareWith(*plan, *shared, 1);
    return std::make_unique<Session>(plan, *weights, ExecContext(options_.threads, 1));
  }

  static int64_t BatchOf(const Plan& plan) {
    for (const PlannedLayer& layer : plan.layers) {
      if (!layer.inputs.empty() || layer.outputs.empty()) continue;
      const Shape& shape = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
      if (shape.axes() > 0 && shape[0] > 0) return shape[0];
    }
    return 1;
  }

  int64_t EpochOf(Session* session) const {
    const LayerSessionState* source = session->source();
    if (source == nullptr) {
      Fail(ErrorCode::kInvalidArgument,
           "no layer of the TEST phase reads a data set with an end; say how many batches with "
           "--iterations");
    }
    return source->EpochSize();
  }

  // Outputs whose first axis is the batch are averaged over it too.
  void RunBatch(Session* session, int64_t batch) {
    result_.loss += session->Forward() * static_cast<double>(batch);
    result_.samples += batch;
    ++result_.batches;
    size_t first = 0;
    for (int v : session->plan().outputs) {
      const PlannedValue& value = session->plan().values[static_cast<size_t>(v)];
      const std::span<const float> data = session->DataOf(v).span<float>();
      const Shape& shape = value.spec.shape;
      const bool per_sample = shape.axes() > 1 && shape[0] == batch;
      const size_t elements = per_sample ? data.size() / static_cast<size_t>(batch) : data.size();
      const double weight = per_sample ? 1 : static_cast<double>(batch);
      while (result_.batches == 1 && result_.outputs.size() < first + elements) {
        const auto element = static_cast<int64_t>(result_.outputs.size() - first);
        result_.outputs.push_back({value.name, element, 0, value.loss_weight});
      }
      for (size_t i = 0; i < data.size(); ++i) {
        result_.outputs.at(first + i % elements).mean += data[i] * weight;
      }
      first += elements;
    }
  }

  // The last, smaller batch: the same net planned for fewer samples, reading on where we are.
  void RunRest(const Session& session, const Weights& weights, int64_t rest) {
    NetParameter net = file_.net;
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (layer.has_data_param()) {
        layer.mutable_data_param()->set_batch_size(static_cast<uint32_t>(rest));
      }
      if (layer.has_hdf5_data_param()) {
        layer.mutable_hdf5_data_param()->set_batch_size(static_cast<uint32_t>(rest));
      }
    }
    std::shared_ptr<Weights> shared;
    const std::unique_ptr<Session> last = Open(net, &weights, &shared);
    SolverState position;
    session.SaveState("evaluate", &position);
    last->RestoreState("evaluate", position);
    RunBatch(last.get(), rest);
  }

  Evaluation Finish() {
    const auto samples = static_cast<double>(result_.samples);
    for (EvaluatedOutput& output : result_.outputs) output.mean /= samples;
    result_.loss /= samples;
    return std::move(result_);
  }

  const NetFile& file_;
  const Registry& registry_;
  EvaluationOptions options_;
  NetState state_;
  Evaluation result_;
};

}  // namespace

Evaluation Evaluate(const NetFile& net, const NetParameter& model, const std::string& model_path,
                    const Registry& registry, const EvaluationOptions& options) {
  return Evaluator(net, registry, options).Run(model, model_path);
}

}  // namespace crema
