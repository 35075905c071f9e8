#include "compare/racer.h"

#include <cmath>
#include <utility>
#include <vector>

#include "common/plan_flags.h"
#include "compare/random_weights.h"
#include "compare/runner_inputs.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "runtime/weights.h"
#include "solvers/solver.h"

namespace crema::compare {
namespace {

// The net, its data layers replaced by inputs.
NetFile ReadNetOf(const RunnerOptions& options, const Registry& registry) {
  NetFile file = ReadNet(options.model);
  ReplaceSources({.given = options.shapes}, registry, &file.net);
  file.net.set_precision(options.precision);
  if (options.dropout) return file;
  for (LayerParameter& layer : *file.net.mutable_layer()) {
    if (layer.type() == "Dropout") layer.mutable_dropout_param()->set_dropout_ratio(0);
  }
  return file;
}

NetState StateOf(Phase phase) {
  NetState state;
  state.set_phase(phase);
  return state;
}

std::shared_ptr<const Plan> PlanOf(const NetFile& file, const RunnerOptions& options, Phase phase,
                                   const Registry& registry) {
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, StateOf(phase), registry,
                  {.threads = options.threads,
                   .backward = false,
                   .implementation_timer = tools::MakeImplementationTimer(options.autotune)},
                  &warnings);
}

std::string WriteOutputsOf(const Session& session, const std::string& folder) {
  std::vector<std::string> items;
  for (const int v : session.plan().outputs) {
    const ConstTensorView data = session.DataOf(v);
    const std::string file = StrCat("output", items.size(), ".f32");
    WriteFloats(StrCat(folder, "/", file), data.span<float>());
    const std::string& name = session.plan().values[static_cast<size_t>(v)].name;
    items.push_back(DescribeBlob(name, data.shape(), file, false));
  }
  return StrCat("[", Join(items, ", "), "]");
}

class InferenceRacer final : public Racer {
 public:
  InferenceRacer(const RunnerOptions& options, const Registry& registry)
      : plan_(PlanOf(ReadNetOf(options, registry), options, TEST, registry)),
        weights_(Load(*plan_, options)),
        session_(plan_, weights_, ExecContext(options.threads)),
        inputs_(*plan_, options.integers) {
    session_.FixWeights();
  }

  double Run() override {
    inputs_.CopyTo(&session_);
    return session_.Forward();
  }
  std::string WriteInputs(const std::string& folder) const override {
    return inputs_.Write(folder);
  }
  std::string WriteOutputs(const std::string& folder) const override {
    return WriteOutputsOf(session_, folder);
  }
  void WriteWeights(const std::string& path) override {
    WriteCaffemodel(weights_->Export(*plan_), path);
  }
  double CompareUpdates(const std::string& /*path*/) override {
    Fail(ErrorCode::kUnsupported, "inference changes no weights");
  }

 private:
  static std::shared_ptr<const Weights> Load(const Plan& plan, const RunnerOptions& options) {
    std::shared_ptr<Weights> weights = Weights::MakeToLoad(plan, 1);
    LoadFiles({.paths = {options.weights}}, plan, weights.get(), nullptr);
    return weights;
  }

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  Session session_;
  RunnerInputs inputs_;
};

RunConfig ConfigOf(const RunnerOptions& options, const Registry& registry) {
  SolverFile file;
  SolverParameter& solver = file.solver;
  *solver.mutable_net_param() = ReadNetOf(options, registry).net;
  solver.set_type("SGD");
  solver.set_lr_policy("fixed");
  solver.set_base_lr(static_cast<float>(options.rate));
  solver.set_momentum(0.9F);
  solver.set_weight_decay(0.0005F);
  solver.set_max_iter(1 << 30);
  solver.set_random_seed(1);
  solver.set_snapshot_after_train(false);
  return MakeRunConfig(std::move(file));
}

// Compares three states of one net. Statistics are left out: they are much larger than updates.
double UpdateError(const NetParameter& before, const NetParameter& expected,
                   const NetParameter& got) {
  double difference = 0;
  double change = 0;
  for (int l = 0; l < before.layer_size(); ++l) {
    if (before.layer(l).type() == "BatchNorm") continue;
    for (int b = 0; b < before.layer(l).blobs_size(); ++b) {
      const auto& old = before.layer(l).blobs(b).data();
      const auto& theirs = expected.layer(l).blobs(b).data();
      const auto& ours = got.layer(l).blobs(b).data();
      for (int i = 0; i < old.size(); ++i) {
        difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
        change += std::pow(static_cast<double>(theirs[i]) - old[i], 2);
      }
    }
  }
  return std::sqrt(difference / change);
}

class TrainingRacer final : public Racer {
 public:
  TrainingRacer(const RunnerOptions& options, const Registry& registry)
      : rate_(options.rate),
        weights_(options.weights),
        solver_(
            ConfigOf(options, registry), registry,
            {.threads = options.threads,
             .observer = nullptr,
             .poll = {},
             .seed = {},
             .plan = {.implementation_timer = tools::MakeImplementationTimer(options.autotune)}}),
        inputs_(solver_.plan(), options.integers) {
    solver_.LoadWeights({options.weights});
  }

  double Run() override {
    inputs_.CopyTo(&solver_.session());
    return solver_.Iterate(rate_);
  }
  std::string WriteInputs(const std::string& folder) const override {
    return inputs_.Write(folder);
  }
  // The loss is the output of a step; memory of the others is reused by backward.
  std::string WriteOutputs(const std::string& /*folder*/) const override { return "[]"; }
  void WriteWeights(const std::string& path) override {
    WriteCaffemodel(solver_.weights().Export(solver_.plan()), path);
  }
  double CompareUpdates(const std::string& path) override {
    return UpdateError(ReadCaffemodel(weights_), ReadCaffemodel(path),
                       solver_.weights().Export(solver_.plan()));
  }

 private:
  double rate_;
  std::string weights_;
  Solver solver_;
  RunnerInputs inputs_;
};

}  // namespace

std::unique_ptr<Racer> MakeRacer(const RunnerOptions& options, const Registry& registry) {
  if (options.mode == Mode::kTrain) return std::make_unique<TrainingRacer>(options, registry);
  return std::make_unique<InferenceRacer>(options, registry);
}

void WriteRandomWeights(const RunnerOptions& options, const Registry& registry) {
  NetFile file = ReadNetOf(options, registry);
  SetFillers(&file.net);
  const std::shared_ptr<const Plan> plan = PlanOf(file, options, TRAIN, registry);
  const std::shared_ptr<Weights> weights =
      MakeRandomWeights(plan, options.integers, options.threads);
  WriteCaffemodel(weights->Export(*plan), options.weights);
}

}  // namespace crema::compare
