// Asynchronous work of a GPU: when the host waits, its heap allocations, the order of transfers and
// passes, and the results of captured graphs. On the emulated GPU, which records a QueueTrace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/strings.h"
#include "math/cuda/emulation.h"
#include "solvers/device_update.h"
#include "solvers/resume.h"
#include "support/gpu.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

#ifndef CREMA_SANITIZED  // sanitizers count and check allocations themselves

namespace {
thread_local int64_t allocations = 0;  // of this thread: data are read by others
}  // namespace

// Not inline: GCC would see memory of new go to free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* pointer = std::malloc(size == 0 ? 1 : size)) return pointer;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }

#endif

namespace crema {
namespace {

using test::Recorder;
using test::ValuesOf;
using What = QueueTrace::What;

class GpuAhead : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
  }

  std::string Text(const std::string& fields) const {
    return StrCat("net_param { ", test::RegressionNet(temp_.path(), 4, 3),
                  " } base_lr: 0.01 random_seed: 5 snapshot_after_train: false snapshot_prefix: '",
                  temp_.File("s"), "' ", fields);
  }
  // All queues of the run record in `trace`.
  std::unique_ptr<Solver> Make(QueueTrace* trace, const std::string& fields) {
    return MakeOf(trace, Text(fields));
  }
  std::unique_ptr<Solver> MakeOf(QueueTrace* trace, const std::string& text,
                                 bool same_batch = false) {
    SolverOptions options = test::OptionsFor(&recorder_);
    options.same_batch = same_batch;
    options.device = {.device = {DeviceType::kCuda, 0}, .gpu_context = [trace](uint64_t seed) {
                        return EmulatedGpuContext(trace, seed);
                      }};
    options.device_update = MakeGpuUpdate;
    return std::make_unique<Solver>(test::ConfigOf(text), test::LayersOfStandIn(),
                                    std::move(options));
  }

  struct Run {
    std::vector<std::vector<float>> weights;
    std::vector<double> losses, scales;
  };
  Run Train(QueueTrace* trace, const std::string& fields) {
    recorder_ = {};
    const auto solver = Make(trace, fields);
    solver->Solve();
    Run run{.weights = ValuesOf(solver->weights()), .losses = {}, .scales = {}};
    for (const IterationReport& report : recorder_.iterations) {
      run.losses.push_back(report.loss);
      run.scales.push_back(report.loss_scale);
    }
    for (const TestReport& report : recorder_.tests) run.losses.push_back(report.outputs[0].value);
    return run;
  }

  test::TempDir temp_;
  Recorder recorder_;
};

// Data sets take memory as they are read, also on the CPU.
const char* kDrawnNet = R"(
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 6 dim: 5 } shape { dim: 6 } data_filler { type: "gaussian" } data_filler {} } }
layer { name: "hidden" type: "InnerProduct" bottom: "data" top: "hidden"
  inner_product_param { num_output: 7 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "hidden" top: "hidden" }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "out" type: "InnerProduct" bottom: "hidden" top: "out"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" }
)";

TEST_F(GpuAhead, AnIterationNeitherWaitsNorAllocates) {
  QueueTrace trace;
  const auto solver =
      MakeOf(&trace, StrCat("net_param { ", kDrawnNet, " } base_lr: 0.01 random_seed: 5 ",
                            "type: 'Adam' lr_policy: 'exp' gamma: 0.99 clip_gradients: 5 "
                            "ema_decay: 0.9 iter_size: 2 display: 50 max_iter: 1000 "));
  solver->Step(60);
  recorder_.iterations.reserve(1000);
  trace.waits = trace.captures = trace.replays = 0;
  trace.entries.reserve(2000);
#ifndef CREMA_SANITIZED
  const int64_t before = allocations;
  solver->Step(30);
  int64_t most = 1;  // the call itself
#ifdef CREMA_HAVE_CUDA
  // A lambda for both devices is on the heap where nvcc compiles: one a launch by itself.
  most += std::ranges::count(trace.entries, What::kLaunch, &QueueTrace::Entry::what);
  EXPECT_LT(most, 30 * 9);
#endif
  EXPECT_LE(allocations - before, most);
#else
  solver->Step(30);
#endif
  EXPECT_EQ(trace.waits, 0);
  EXPECT_EQ(trace.captures, 0);
  EXPECT_EQ(trace.replays, 30 * (2 + 2 + 1));  // forward, backward, update
  EXPECT_EQ(recorder_.iterations.size(), 90U);
  solver->Step(20);  // with a display, which shows values of the net
  EXPECT_GT(trace.waits, 0);
}

// A batch that a program feeds may have changed by the time that its loss is reported.
TEST_F(GpuAhead, WhoHandsOverBatchesWaitsUnlessTheyAreTheSame) {
  const std::string net = R"(net_param {
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "ip" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
} base_lr: 0.01 random_seed: 5 lr_policy: "fixed" max_iter: 1000 )";
  std::vector<std::vector<std::vector<float>>> weights;
  for (const bool same : {false, true}) {
    QueueTrace trace;
    const auto solver = MakeOf(&trace, net, same);
    Session& session = solver->session();
    const std::vector<float> x(24, 0.5F);
    session.Write(session.MutableData("x"), x.data());
    for (int i = 0; i < 3; ++i) solver->QueueIteration(0.01);
    trace.waits = 0;
    for (int i = 0; i < 20; ++i) solver->QueueIteration(0.01);
    EXPECT_EQ(trace.waits > 0, !same);
    solver->EndTrial();
    weights.push_back(ValuesOf(solver->weights()));
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// Values that change between iterations must not be fixed in captured graphs.
TEST_F(GpuAhead, WorkThatIsLaunchedAgainComputesWhatItWouldAnew) {
  const std::string all =
      "max_iter: 14 test_interval: 5 test_initialization: false display: 3 average_loss: 2 ";
  for (const char* fields :
       {"momentum: 0.9 weight_decay: 0.01 lr_policy: 'step' gamma: 0.5 stepsize: 4 ",
        "type: 'Adam' momentum: 0.9 lr_policy: 'inv' gamma: 0.1 power: 0.75 ema_decay: 0.9 ",
        "type: 'LAMB' momentum: 0.9 lr_policy: 'poly' power: 1 iter_size: 2 ",
        "type: 'LARS' momentum: 0.9 lr_policy: 'exp' gamma: 0.9 clip_gradients: 0.1 ",
        "momentum: 0.9 lr_policy: 'fixed' iter_size: 2 clip_gradients: 1 "
        "loss_scale { initial: 1024 growth_interval: 3 } "}) {
    SCOPED_TRACE(fields);
    QueueTrace anew{.no_graphs = true}, again;
    const Run expected = Train(&anew, all + fields);
    const Run run = Train(&again, all + fields);
    EXPECT_EQ(anew.replays, 0);
    EXPECT_GT(again.replays, 14);
    ASSERT_EQ(expected.losses.size(), 14U + 2U);
    EXPECT_NE(expected.losses[12], expected.losses[13]);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(run.scales, expected.scales);
    EXPECT_EQ(run.weights, expected.weights);
  }
}

TEST_F(GpuAhead, TheLossScaleIsJudgedOnTheGpu) {
  const std::string fields =
      "lr_policy: 'fixed' max_iter: 12 loss_scale { initial: 16777216 growth_interval: 5 } ";
  QueueTrace trace;
  std::string text = fields;
  const Run run = Train(&trace, text);
  EXPECT_EQ(run.scales.front(), 16777216);
  EXPECT_EQ(run.scales.back(), 16777216);  // the largest there is
}

TEST_F(GpuAhead, LateTransfersChangeNothing) {
  const std::string fields = "max_iter: 12 lr_policy: 'fixed' momentum: 0.9 display: 5 ";
  QueueTrace prompt, late{.late_transfers = true};
  const Run expected = Train(&prompt, fields);
  const Run run = Train(&late, fields);
  EXPECT_EQ(run.losses, expected.losses);
  EXPECT_EQ(run.weights, expected.weights);
}

std::vector<QueueTrace::Entry> OfTransfers(const QueueTrace& trace) {
  std::vector<QueueTrace::Entry> entries;
  for (const QueueTrace::Entry& entry : trace.entries) {
    const bool launch = entry.what == What::kLaunch && entry.name != "Copy";
    const bool range = entry.what == What::kBeginRange || entry.what == What::kEndRange;
    const bool other = entry.what == What::kTransferred || entry.what == What::kDownload;
    if (!launch && !range && !other) entries.push_back(entry);
  }
  return entries;
}

// Copies of a batch wait for its transfer, a transfer for the copies of the batch before, and the
// host for the transfer that still reads what it is about to write.
TEST_F(GpuAhead, TransfersAndPassesAreHeldBackByEvents) {
  QueueTrace trace;
  const auto solver = Make(&trace, "lr_policy: 'fixed' max_iter: 1000 ");
  solver->Step(5);
  trace.entries.reserve(4000);
  solver->Step(4);
  const std::vector<QueueTrace::Entry> entries = OfTransfers(trace);
  std::vector<const void*> places, sent;
  for (size_t i = 0; i + 7 < entries.size(); ++i) {
    if (entries[i].what != What::kUpload || entries[i].stream != DeviceStream::kTransfer) continue;
    const auto at = [&](int offset) { return entries.at(i + static_cast<size_t>(offset)); };
    ASSERT_GE(i, 2U);
    EXPECT_EQ(at(-2).what, What::kAsk);  // before the host wrote
    EXPECT_EQ(at(-1).what, What::kStreamWait);
    EXPECT_EQ(at(-1).stream, DeviceStream::kTransfer);
    EXPECT_EQ(at(1).what, What::kUpload);  // the labels
    EXPECT_EQ(at(2).what, What::kRecord);
    EXPECT_EQ(at(2).stream, DeviceStream::kTransfer);
    EXPECT_EQ(at(-2).place, at(2).place);
    EXPECT_EQ(at(3).what, What::kStreamWait);
    EXPECT_EQ(at(3).stream, DeviceStream::kCompute);
    EXPECT_EQ(at(3).place, at(2).place);
    EXPECT_EQ(at(4).name, "Copy");
    EXPECT_EQ(at(5).name, "Copy");
    EXPECT_EQ(at(6).what, What::kRecord);
    EXPECT_EQ(at(6).stream, DeviceStream::kCompute);
    EXPECT_EQ(at(6).place, at(-1).place);
    places.push_back(at(0).place);
    sent.push_back(at(2).place);
    ++i;
  }
  ASSERT_EQ(places.size(), 4U);
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(sent[0], sent[2]);
  EXPECT_NE(sent[0], sent[1]);
}

TEST_F(GpuAhead, RangesHaveTheNamesOfLayers) {
  QueueTrace trace;
  const auto solver = Make(&trace, "lr_policy: 'fixed' max_iter: 1000 ");
  trace.entries.reserve(4000);
  solver->Step(1);
  int depth = 0;
  std::vector<std::string> names;
  for (const QueueTrace::Entry& entry : trace.entries) {
    if (entry.what == What::kBeginRange) {
      EXPECT_EQ(depth++, 0);
      names.push_back(entry.name);
    }
    if (entry.what == What::kEndRange) {
      EXPECT_EQ(--depth, 0);
    }
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(std::ranges::count(names, "hidden"), 2);  // forward and backward
  EXPECT_EQ(std::ranges::count(names, "data"), 1);
}

TEST_F(GpuAhead, ALostGpuEndsTheRunAndLeavesTheLastSnapshotWhole) {
  const std::string fields = "lr_policy: 'fixed' momentum: 0.9 max_iter: 12 snapshot: 4 ";
  QueueTrace whole;
  const Run expected = Train(&whole, fields);
  for (const char* kernel : {"Copy", "NoteLoss"}) {
    QueueTrace trace{.broken_kernel = kernel, .whole_launches = kernel[0] == 'C' ? 15 : 6};
    std::string first;
    {
      const auto solver = Make(&trace, fields);
      const auto error = [&](const auto& body) {
        try {
          body();
        } catch (const Error& e) {
          EXPECT_EQ(ExitCode(e.code()), 4) << e.what();
          return std::string(e.what());
        }
        return std::string("nothing was thrown");
      };
      first = error([&] { solver->Solve(); });
      const std::string words = StrCat("launching ", kernel, " failed: the stand-in is broken");
      EXPECT_NE(first.find(words), std::string::npos) << first;
      EXPECT_EQ(solver->iteration(), std::string(kernel) == "Copy" ? 7 : 6);
      // It gets no more calls.
      const size_t asked = trace.entries.size();
      for (const auto& again : {error([&] { solver->Step(1); }), error([&] { solver->weights(); }),
                                error([&] { solver->Snapshot(); })}) {
        EXPECT_NE(again.find("the GPU was lost: " + words), std::string::npos) << again;
      }
      EXPECT_EQ(trace.entries.size(), asked);
    }
    recorder_ = {};
    QueueTrace other;
    const auto resumed = Make(&other, fields);
    resumed->Restore(temp_.File("s_iter_4.solverstate"));
    resumed->Solve();
    EXPECT_EQ(ValuesOf(resumed->weights()), expected.weights);
  }
}

}  // namespace
}  // namespace crema
