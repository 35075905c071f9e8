#include "runtime/evaluate.h"

#include <functional>
#include <memory>
#include <utility>

#include "crema.pb.h"
#include "graph/replace_sources.h"
#include "runtime/memory_fit.h"
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
    EpochRunner runner(file_.net, session.get(),
                       {.open =
                            [&](const NetParameter& net) {
                              std::shared_ptr<Weights> shared;
                              return Open(net, weights.get(), &shared);
                            },
                        .on_batch = options_.on_batch,
                        .advice = "say how many batches with --iterations",
                        .log = options_.log});
    Evaluation all =
        options_.iterations > 0 ? runner.RunBatches(options_.iterations) : runner.RunEpoch();
    for (const std::string& blob : all.left_out) {
      if (options_.log != nullptr) options_.log->Write(Severity::kWarning, DescribeLeftOut(blob));
    }
    return all;
  }

 private:
  std::unique_ptr<Session> Open(const NetParameter& net, const Weights* shared,
                                std::shared_ptr<Weights>* weights) {
    std::vector<Problem> warnings = file_.warnings;
    PlanOptions plan_options = options_.plan;
    plan_options.threads = options_.threads;
    plan_options.backward = false;
    plan_options.device = options_.device.device;
    plan_options.optimize = !options_.keep_blobs;
    const auto plan = MakePlan(net, file_.source, state_, registry_, plan_options, &warnings);
    if (options_.log != nullptr && shared == nullptr) {
      for (const Problem& warning : warnings) {
        options_.log->Write(Severity::kWarning, ToString(warning));
      }
    }
    *weights =
        shared == nullptr ? Weights::MakeToLoad(*plan, 1) : Weights::ShareWith(*plan, *shared, 1);
    auto session = MakeSession(net, plan, *weights);
    session->FixWeights();  // the weights are loaded before the first pass
    return session;
  }

  std::unique_ptr<Session> MakeSession(const NetParameter& net,
                                       const std::shared_ptr<const Plan>& plan,
                                       const std::shared_ptr<Weights>& weights) {
    const int64_t free = options_.device.FreeBytes();
    try {
      return std::make_unique<Session>(plan, weights, options_.device.Context(options_.threads, 1));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory || free == 0) throw;
      const auto plan_of = [&](int64_t batch) {
        NetParameter other = net;
        ReplaceSources({.given = {}, .batch = batch}, registry_, &other);
        std::vector<Problem> reported_before;
        return MakePlan(other, file_.source, state_, registry_, plan->options, &reported_before);
      };
      throw ExplainShortage(error, {.plan = *plan,
                                    .what = "evaluation",
                                    .of_others = {},
                                    .free = free,
                                    .batch = FirstBatch(*plan),
                                    .plan_of = plan_of});
    }
  }

  const NetFile& file_;
  const Registry& registry_;
  EvaluationOptions options_;
  NetState state_;
};

}  // namespace

Evaluation Evaluate(const NetFile& net, const NetParameter& model, const std::string& model_path,
                    const Registry& registry, const EvaluationOptions& options) {
  return Evaluator(net, registry, options).Run([&](const Plan& plan, Weights* weights) {
    const LoadReport report = weights->Load(plan, model, model_path, MissingLayers::kError);
    weights->FillRest(plan);
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
