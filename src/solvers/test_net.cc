#include "solvers/test_net.h"

#include <chrono>
#include <utility>

#include "core/blob_types.h"
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
  const auto start = std::chrono::steady_clock::now();
  TestReport report{.iteration = iteration, .net = options_.index, .outputs = {}};
  report.has_loss = options_.report_loss;
  session_->set_step(static_cast<uint64_t>(iteration) << 32);  // a test has fewer passes
  detection_.Start();
  if (options_.batches > 0) {
    RunBatches(after_batch, &report);
  } else {
    RunEpoch(after_batch, &report);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

void TestNet::RunBatches(const std::function<void()>& after_batch, TestReport* report) {
  session_->TakeWeights();
  OutputMeans means;
  means.Start(plan(), plan().outputs, [](const PlannedValue&) { return false; });
  for (int batch = 0; batch < options_.batches; ++batch) {
    report->loss += ForwardAndWarn(session_.get(), options_.log) / options_.batches;
    constexpr int64_t kSameWeight = 1;
    means.Add(*session_, kSameWeight);
    detection_.Add(*session_);
    after_batch();
  }
  AddOutputs(means.Means(), means.LeftOut(), report);
  report->samples = FirstBatch(plan()) * options_.batches;
}

void TestNet::RunEpoch(const std::function<void()>& after_batch, TestReport* report) {
  session_->RestoreState(kStart, start_);
  after_batch_ = after_batch;
  const Evaluation all = epoch_->RunEpoch();
  report->loss = all.loss;
  report->samples = all.samples;
  AddOutputs(all.outputs, all.left_out, report);
}

void TestNet::AddOutputs(const std::vector<EvaluatedOutput>& means,
                         const std::vector<std::string>& left_out, TestReport* report) {
  for (const EvaluatedOutput& output : means) {
    report->outputs.push_back({output.blob, output.mean, output.loss_weight});
  }
  for (const OutputValue& mean : detection_.Means(options_.log_classes ? options_.log : nullptr)) {
    report->outputs.push_back(mean);
  }
  for (const std::string& blob : left_out) {
    if (options_.log == nullptr || !told_.insert(blob).second) continue;
    options_.log->Write(Severity::kWarning,
                        StrCat("test net #", options_.index, ": ", DescribeLeftOut(blob)));
  }
}

}  // namespace crema
