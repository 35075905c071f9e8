// Updates on a GPU, or on a stand-in if there is none, are those of the CPU, for every rule.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/device_memory.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/device_update.h"
#include "solvers/rules/norms.h"
#include "support/gpu.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

using Blobs = std::vector<UpdateBlob<float>>;

struct Call {
  SolverParameter param;
  int64_t iteration = 0;
  double scale = 1;
  double limit = std::numeric_limits<double>::infinity();
  double clip_norm = -1;
};

// Copies of the blobs on the GPU.
class OnDevice {
 public:
  OnDevice(const ExecContext& context, const Blobs& blobs) : context_(context) {
    memory_.reserve(4 * blobs.size());
    for (const UpdateBlob<float>& blob : blobs) {
      histories_.emplace_back();
      updates_.push_back({.weights = Copy(blob.weights),
                          .gradient = blob.gradient.empty() ? TensorView() : Copy(blob.gradient),
                          .history = {},
                          .rate = blob.rate,
                          .decay = blob.decay});
      for (const auto& h : blob.history) histories_.back().push_back(Copy(h));
    }
    for (size_t b = 0; b < blobs.size(); ++b) updates_[b].history = histories_[b];
  }

  // Runs one iteration, whose pass has a loss of `loss`; returns the result of the device.
  DeviceRun Iterate(const UpdateRule& rule, const Call& call, DeviceUpdate* update,
                    int64_t growth_interval = 0, double loss = 1) const {
    Tensor place(Shape{1}, DType::kF64, context_.allocator());
    Upload(context_, place.view().raw(), &loss, sizeof(loss));
    update->NoteLoss(static_cast<const double*>(place.view().raw()), 0);
    Apply(rule, call, update, growth_interval);
    update->EndIteration();
    return update->TakeOutcome(true).value();
  }

  void Apply(const UpdateRule& rule, const Call& call, DeviceUpdate* update,
             int64_t growth_interval = 0) const {
    const bool l1 = call.param.regularization_type() == "L1";
    update->Apply(rule,
                  {.context = context_,
                   .param = call.param,
                   .iteration = call.iteration,
                   .blobs = updates_,
                   .gradient_scale = call.scale,
                   .gradient_limit = call.limit,
                   .momentum = MomentumAt(rule, call.param, call.iteration),
                   .regularization = l1 ? Regularization::kL1 : Regularization::kL2},
                  call.clip_norm, growth_interval);
  }

  void Read(Blobs* blobs) const {
    for (size_t b = 0; b < blobs->size(); ++b) {
      Read(updates_[b].weights, &(*blobs)[b].weights);
      for (size_t h = 0; h < histories_[b].size(); ++h) {
        Read(histories_[b][h], &(*blobs)[b].history[h]);
      }
    }
  }
  void Read(const TensorView& from, std::vector<float>* to) const {
    to->resize(static_cast<size_t>(from.count()));
    Download(context_, to->data(), from.raw(), from.bytes());
  }
  const std::vector<BlobUpdate>& updates() const { return updates_; }

 private:
  TensorView Copy(const std::vector<float>& values) {
    memory_.emplace_back(Shape{std::ssize(values)}, DType::kF32, context_.allocator());
    const TensorView view = memory_.back().view();
    Upload(context_, view.raw(), values.data(), view.bytes());
    return view;
  }

  const ExecContext& context_;
  std::vector<Tensor> memory_;
  std::vector<std::vector<TensorView>> histories_;
  std::vector<BlobUpdate> updates_;
};

// More than one chunk, one element, and a blob that nothing depends on. Weights of the sizes that
// fillers give, so that a step is seen.
Blobs SomeBlobs(const UpdateRule& rule) {
  Blobs blobs;
  for (size_t count : {20011, 1, 300, 8192, 33}) {
    blobs.push_back(RandomBlob<float>(rule, count, count));
    for (float& w : blobs.back().weights) w *= 0.1F;
  }
  blobs[1].rate = 0.2;
  blobs[2].decay = 0.01;
  blobs[3].rate = 0.05;
  blobs[4].decay = 0.1;
  blobs[4].gradient.clear();
  return blobs;
}

double NormOfGradients(const Blobs& blobs) {
  double sum = 0;
  for (const UpdateBlob<float>& blob : blobs) sum += SumOfSquares(std::span(blob.gradient));
  return std::sqrt(sum);
}

void ExpectNearAll(const std::vector<float>& cpu, const std::vector<float>& gpu,
                   const std::string& what) {
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < cpu.size(); ++i) {
    ASSERT_NEAR(cpu[i], gpu[i], 1e-5 * std::abs(cpu[i]) + 1e-7) << what << " at " << i;
  }
}

void ExpectSame(const Blobs& cpu, const Blobs& gpu) {
  for (size_t b = 0; b < cpu.size(); ++b) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectNearAll(cpu[b].weights, gpu[b].weights, StrCat("weights of ", b)));
    for (size_t h = 0; h < cpu[b].history.size(); ++h) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectNearAll(cpu[b].history[h], gpu[b].history[h], StrCat("history ", h, " of ", b)));
    }
  }
}

// Three updates on each device.
void ExpectUpdatesOfTheCpu(const UpdateRule& rule, Blobs cpu, Call call) {
  SCOPED_TRACE(rule.name);
  const ExecContext context = GpuContext(1);
  const auto update = MakeGpuUpdate(context);
  Blobs gpu = cpu;
  const OnDevice device(context, gpu);
  for (call.iteration = 0; call.iteration < 3; ++call.iteration) {
    const double norm = NormOfGradients(cpu);
    const bool clipped = call.clip_norm >= 0 && norm > call.clip_norm;
    const double scale = clipped ? call.scale * call.clip_norm / norm : call.scale;
    ASSERT_EQ(Update(rule, call.param, 1, &cpu, call.iteration, scale, call.limit), -1);
    ASSERT_EQ(device.Iterate(rule, call, update.get()).end, RunEnd::kNone);
  }
  device.Read(&gpu);
  ExpectSame(cpu, gpu);
}

TEST(GpuUpdate, EveryRuleIsThatOfTheCpu) {
  for (const UpdateRule& rule : UpdateRules()) {
    ASSERT_NO_FATAL_FAILURE(ExpectUpdatesOfTheCpu(rule, SomeBlobs(rule), {.param = {}}));
    ASSERT_NO_FATAL_FAILURE(
        ExpectUpdatesOfTheCpu(rule, SomeBlobs(rule), {.param = {}, .scale = 0.5, .limit = 0.3}));
    for (double norm : {0.5, 1e6}) {
      ASSERT_NO_FATAL_FAILURE(ExpectUpdatesOfTheCpu(
          rule, SomeBlobs(rule), {.param = {}, .scale = 0.5, .clip_norm = norm}));
    }
  }
}

TEST(GpuUpdate, L1) {
  for (const UpdateRule& rule : UpdateRules()) {
    if (!rule.takes_l1) continue;
    const Call call{.param = SolverFields("regularization_type: 'L1'")};
    ASSERT_NO_FATAL_FAILURE(ExpectUpdatesOfTheCpu(rule, SomeBlobs(rule), call));
  }
}

// More rates than one launch takes.
TEST(GpuUpdate, EachBlobMayHaveARateOfItsOwn) {
  for (const UpdateRule& rule : UpdateRules()) {
    Blobs blobs;
    for (size_t b = 0; b < 40; ++b) {
      blobs.push_back(RandomBlob<float>(rule, 10 + b, b));
      blobs.back().rate = 0.001 * static_cast<double>(b);
      blobs.back().decay = 0.002 * static_cast<double>(40 - b);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectUpdatesOfTheCpu(rule, std::move(blobs), {.param = {}}));
  }
}

TEST(GpuUpdate, NamesTheFirstBlobThatIsNotFinite) {
  for (const UpdateRule& rule : UpdateRules()) {
    const ExecContext context = GpuContext(1);
    const auto update = MakeGpuUpdate(context);
    Blobs blobs = SomeBlobs(rule);
    blobs[2].weights[299] = std::numeric_limits<float>::quiet_NaN();
    blobs[3].history[0][8000] = std::numeric_limits<float>::infinity();
    const auto broken = [&] {
      update->Begin({});
      const DeviceRun run = OnDevice(context, blobs).Iterate(rule, {.param = {}}, update.get());
      return run.end == RunEnd::kUpdate ? run.blob : -1;
    };
    EXPECT_EQ(broken(), 2) << rule.name;
    blobs[2].weights[299] = 0;
    EXPECT_EQ(broken(), 3) << rule.name;
    blobs = SomeBlobs(rule);
    EXPECT_EQ(broken(), -1) << rule.name;
  }
}

// Weights and gradients do not change, so that the cause can be found.
TEST(GpuUpdate, NothingIsUpdatedAfterTheEnd) {
  const UpdateRule& rule = *FindUpdateRule("SGD");
  const ExecContext context = GpuContext(1);
  const auto update = MakeGpuUpdate(context);
  Blobs blobs = SomeBlobs(rule);
  const OnDevice device(context, blobs);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const DeviceRun run = device.Iterate(rule, {.param = {}}, update.get(), 0, nan);
  EXPECT_EQ(run.end, RunEnd::kLoss);
  EXPECT_TRUE(std::isnan(run.bad_loss));
  EXPECT_EQ(run.pass, 0);
  EXPECT_EQ(device.Iterate(rule, {.param = {}}, update.get()).end, RunEnd::kLoss);
  Blobs after = blobs;
  device.Read(&after);
  for (size_t b = 0; b < blobs.size(); ++b) EXPECT_EQ(after[b].weights, blobs[b].weights);
  update->Begin({});
  EXPECT_EQ(device.Iterate(rule, {.param = {}}, update.get()).end, RunEnd::kNone);
  device.Read(&after);
  EXPECT_NE(after[0].weights, blobs[0].weights);
}

TEST(GpuUpdate, ReportsTheGradientsThatBrokeIt) {
  const UpdateRule& rule = *FindUpdateRule("SGD");
  const ExecContext context = GpuContext(1);
  const auto update = MakeGpuUpdate(context);
  Blobs blobs = SomeBlobs(rule);
  blobs[0].gradient[300] = -std::numeric_limits<float>::infinity();
  blobs[0].gradient[17000] = std::numeric_limits<float>::quiet_NaN();
  blobs[0].gradient[5] = -77;
  EXPECT_EQ(OnDevice(context, blobs).Iterate(rule, {.param = {}}, update.get()).blob, 0);
  const std::vector<GradientReport> reports = update->BrokenGradients();
  ASSERT_EQ(reports.size(), blobs.size());
  EXPECT_EQ(reports[0].broken, 2);
  EXPECT_EQ(reports[0].first_at, 300);
  EXPECT_EQ(reports[0].first, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(reports[0].largest, 77);
  EXPECT_EQ(reports[1].broken, 0);
  EXPECT_GT(reports[1].largest, 0);
  EXPECT_EQ(reports[4].largest, 0);  // it has none
}

TEST(GpuUpdate, AveragesFollowAndStatisticsAreCopied) {
  const UpdateRule& rule = *FindUpdateRule("SGD");
  const ExecContext context = GpuContext(1);
  const auto update = MakeGpuUpdate(context);
  const Blobs blobs = SomeBlobs(rule);
  const OnDevice device(context, blobs);  // its histories are the averages, zero so far
  std::vector<AveragedBlob> averaged;
  for (const BlobUpdate& blob : device.updates()) {
    averaged.push_back({blob.history[0], blob.weights, averaged.size() == 2});
  }
  update->Average(averaged, 0.25F);
  update->Average(averaged, 0.25F);
  for (size_t b = 0; b < blobs.size(); ++b) {
    std::vector<float> average;
    device.Read(averaged[b].average, &average);
    for (size_t i = 0; i < average.size(); ++i) {
      const float share = b == 2 ? 1 : 1 - 0.75F * 0.75F;
      ASSERT_NEAR(average[i], share * blobs[b].weights[i], 1e-7) << b << " at " << i;
    }
  }
}

TEST(GpuUpdate, JudgesTheLossScale) {
  const UpdateRule& rule = *FindUpdateRule("SGD");
  const ExecContext context = GpuContext(1);
  Blobs blobs = SomeBlobs(rule);
  blobs[3].gradient[5] = std::numeric_limits<float>::max();
  Blobs wrong = blobs;
  wrong[0].gradient.back() = std::numeric_limits<float>::infinity();
  const OnDevice good(context, blobs), bad(context, wrong);
  const auto update = MakeGpuUpdate(context);
  const Call call{.param = {}, .scale = 1e-30};
  update->Begin({.scale = {.scale = 64, .good = 1, .skipped = 3}});
  const auto state = [](const DeviceRun& run) {
    return std::vector<double>{run.tried, run.scale.scale, static_cast<double>(run.scale.good),
                               static_cast<double>(run.scale.skipped),
                               static_cast<double>(run.skips)};
  };
  EXPECT_EQ(state(bad.Iterate(rule, call, update.get(), 2)),
            (std::vector<double>{64, 32, 0, 4, 1}));
  Blobs after = blobs;
  bad.Read(&after);
  EXPECT_EQ(after[1].weights, blobs[1].weights);
  EXPECT_EQ(state(good.Iterate(rule, call, update.get(), 2)),
            (std::vector<double>{32, 32, 1, 4, 0}));
  EXPECT_EQ(state(good.Iterate(rule, call, update.get(), 2)),
            (std::vector<double>{32, 64, 0, 4, 0}));
  update->Begin({.scale = {.scale = ScaleState::kSmallest, .good = 0, .skipped = 0}});
  EXPECT_EQ(bad.Iterate(rule, call, update.get(), 2).end, RunEnd::kScale);
}

}  // namespace
}  // namespace crema::test
