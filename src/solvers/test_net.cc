#include "solvers/test_net.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/blob_types.h"
#include "core/byte_text.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/output_means.h"
#include "runtime/session.h"
#include "solvers/run_memory.h"

namespace crema {
namespace {

constexpr const char* kAdvice = "say how many batches with test_iter";
constexpr const char* kStart = "start";

}  // namespace

std::vector<OutputValue> OutputsOf(const Session& session) {
  std::vector<OutputValue> values;
  for (int v : session.plan().outputs) {
    const PlannedValue& value = session.plan().values[static_cast<size_t>(v)];
    const HostView data(session, session.DataOf(v));
    if (data->count() > kMostReportedElements) continue;
    DispatchBlob(data->dtype(), [&]<typename T>(T) {
      for (const T element : data->span<T>()) {
        values.push_back({value.name, static_cast<float>(element), value.loss_weight});
      }
    });
  }
  return values;
}

void RefuseTestWithoutEnd(const NetOfRun& net, const Session& session, size_t index) {
  try {
    EpochOf(session, kAdvice);
  } catch (const Error& error) {
    Fail(error.code(), StrCat("test net #", index, ": ", error.what()), net.file.source.Locate(""));
  }
}

TestNet::TestNet(const NetOfRun& net, const Registry& registry, const Weights& trained,
                 Options options)
    : net_(net),
      registry_(registry),
      trained_(trained),
      options_(std::move(options)),
      name_(StrCat("test#", options_.index)),
      session_(OpenFirst()),
      detection_(session_->plan(), options_.precision) {
  session_->SaveState(kStart, &start_);
  if (options_.batches > 0) return;
  epoch_ = std::make_unique<EpochRunner>(
      net_.file.net, session_.get(),
      EpochRunner::Options{.open =
                               [this](const NetParameter& rest) {
                                 std::vector<Problem> reported_before;
                                 return Open(PlanOf(rest, &reported_before));
                               },
                           .on_batch =
                               [this](const Session& session, int64_t) {
                                 detection_.Add(session);
                                 after_batch_();
                               },
                           .advice = kAdvice,
                           .log = options_.log});
}

std::shared_ptr<const Plan> TestNet::PlanOf(const NetParameter& net,
                                            std::vector<Problem>* warnings) const {
  PlanOptions plan_options = options_.plan;
  plan_options.backward = false;
  plan_options.device = options_.device.device;
  return MakePlan(net, net_.file.source, net_.state, registry_, plan_options, warnings);
}

std::unique_ptr<Session> TestNet::Open(const std::shared_ptr<const Plan>& plan) const {
  const std::shared_ptr<const Weights> weights = Weights::ShareWith(*plan, trained_, options_.seed);
  return std::make_unique<Session>(plan, weights,
                                   options_.device.Context(options_.plan.threads, options_.seed));
}

std::unique_ptr<Session> TestNet::OpenFirst() const {
  const std::shared_ptr<const Plan> plan = PlanOf(net_.file.net, options_.warnings);
  if (!options_.device.is_gpu()) RequireMemory(TestingBytes(*plan));
  return Open(plan);
}

void TestNet::RefuseSourceWithoutEnd() const {
  if (options_.batches == 0) RefuseTestWithoutEnd(net_, *session_, options_.index);
}

TestReport TestNet::Run(int64_t iteration, const std::function<void()>& after_batch) {
  return ReportOf(iteration, Evaluate(iteration, {}, after_batch));
}

Evaluation TestNet::Evaluate(int64_t iteration, const RankPlace& own,
                             const std::function<void()>& after_batch) {
  started_ = std::chrono::steady_clock::now();
  session_->set_step(static_cast<uint64_t>(iteration) << 32);  // a test has fewer passes
  detection_.Start();
  if (options_.batches > 0) return RunBatches(own, after_batch);
  session_->RestoreState(kStart, start_);
  after_batch_ = after_batch;
  return epoch_->RunEpoch(own);
}

Evaluation TestNet::RunBatches(const RankPlace& own, const std::function<void()>& after_batch) {
  session_->TakeWeights();
  OutputMeans means;
  means.Start(plan(), plan().outputs, [](const PlannedValue&) { return false; });
  const BatchPart part = PartOf(options_.batches, own);
  MoveByBatches(part.first, session_.get());
  Evaluation all;
  for (int64_t batch = part.first; batch < part.end; ++batch) {
    all.loss += ForwardAndWarn(session_.get(), options_.log);
    ++all.batches;
    constexpr int64_t kSameWeight = 1;
    means.Add(*session_, kSameWeight);
    detection_.Add(*session_);
    after_batch();
  }
  MoveByBatches(options_.batches - part.end, session_.get());
  if (all.batches > 0) all.loss /= static_cast<double>(all.batches);
  all.samples = FirstBatch(plan()) * all.batches;
  all.outputs = means.Means();
  all.left_out = means.LeftOut();
  return all;
}

std::string TestNet::RunPart(int64_t iteration, const RankPlace& own,
                             const std::function<void()>& after_batch) {
  const Evaluation results = Evaluate(iteration, own, after_batch);
  std::string part;
  AppendValue(results.samples, &part);
  AppendValue(results.loss, &part);
  AppendText(Join(results.left_out, "\n"), &part);
  AppendText(detection_.Save(), &part);
  for (const EvaluatedOutput& output : results.outputs) {
    AppendText(output.blob, &part);
    AppendValue(output.element, &part);
    AppendValue(output.mean, &part);
    AppendValue(output.loss_weight, &part);
  }
  return part;
}

// An output that some ranks lack has changed its size between their parts.
TestReport TestNet::JoinParts(int64_t iteration, std::span<const std::string> parts) {
  detection_.Start();
  Evaluation all;
  std::vector<double> weights;  // of all.outputs
  std::set<std::string> left_out;
  for (std::string_view part : parts) {
    const auto samples = TakeValue<int64_t>(&part);
    const auto weight = static_cast<double>(samples);
    all.samples += samples;
    all.loss += TakeValue<double>(&part) * weight;
    for (const std::string& blob : Split(std::string(TakeText(&part)), '\n')) left_out.insert(blob);
    detection_.Join(TakeText(&part));
    while (!part.empty()) {
      EvaluatedOutput output{.blob = std::string(TakeText(&part))};
      output.element = TakeValue<int64_t>(&part);
      output.mean = TakeValue<double>(&part) * weight;
      output.loss_weight = TakeValue<double>(&part);
      const auto found = std::ranges::find_if(all.outputs, [&](const EvaluatedOutput& other) {
        return other.blob == output.blob && other.element == output.element;
      });
      if (found == all.outputs.end()) {
        all.outputs.push_back(std::move(output));
        weights.push_back(weight);
      } else {
        found->mean += output.mean;
        weights[static_cast<size_t>(found - all.outputs.begin())] += weight;
      }
    }
  }
  const auto total = static_cast<double>(all.samples);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] < total) left_out.insert(all.outputs[i].blob);
    all.outputs[i].mean /= total;
  }
  left_out.erase("");
  std::erase_if(all.outputs,
                [&](const EvaluatedOutput& one) { return left_out.contains(one.blob); });
  all.left_out.assign(left_out.begin(), left_out.end());
  if (total > 0) all.loss /= total;
  return ReportOf(iteration, all);
}

TestReport TestNet::ReportOf(int64_t iteration, const Evaluation& all) {
  TestReport report{.iteration = iteration, .net = options_.index, .outputs = {}};
  report.has_loss = options_.report_loss;
  report.loss = all.loss;
  report.samples = all.samples;
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  for (const EvaluatedOutput& output : all.outputs) {
    report.outputs.push_back({output.blob, output.mean, output.loss_weight});
  }
  for (const OutputValue& mean : detection_.Means(options_.log_classes ? options_.log : nullptr)) {
    report.outputs.push_back(mean);
  }
  for (const std::string& blob : all.left_out) {
    if (options_.log == nullptr || !told_.insert(blob).second) continue;
    options_.log->Write(Severity::kWarning,
                        StrCat("test net #", options_.index, ": ", DescribeLeftOut(blob)));
  }
  return report;
}

}  // namespace crema
