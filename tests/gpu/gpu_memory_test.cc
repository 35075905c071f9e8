// Errors when a GPU, or its emulation with bounded memory, has too little memory.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <regex>
#include <string>

#include "core/allocator.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/evaluate.h"
#include "runtime/memory_fit.h"
#include "solvers/device_update.h"
#include "support/gpu.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

// This much memory of the test's GPU.
class BoundedGpu {
 public:
  explicit BoundedGpu(int64_t bytes)
      : all_(test::GpuContext(1)),
        memory_(std::make_shared<LimitedAllocator>(all_.allocator(), bytes)) {}
  // Must not outlive this.
  ComputeDevice device() const {
    return {.device = {DeviceType::kCuda, 0},
            .gpu_context = [this](uint64_t seed) { return test::GpuContextIn(*memory_, seed); },
            .free_bytes = [this] { return memory_->free(); }};
  }
  int64_t free() const { return memory_->free(); }

 private:
  ExecContext all_;
  std::shared_ptr<LimitedAllocator> memory_;
};

TEST(LimitedMemory, GivesUpToItsLimit) {
  LimitedAllocator memory(CpuAllocator(), 1000);
  void* some = memory.Allocate(600);
  EXPECT_EQ(memory.free(), 400);
  try {
    memory.Allocate(401);
    ADD_FAILURE() << "was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("401 bytes on cpu: 400 of 1000"), std::string::npos)
        << error.what();
  }
  void* rest = memory.Allocate(400);
  EXPECT_EQ(memory.free(), 0);
  memory.Free(some, 600);
  memory.Free(rest, 400);
  EXPECT_EQ(memory.free(), 1000);
}

// Wide, so that its values outweigh its weights.
std::string Net(int batch) {
  return StrCat("layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: ", batch,
                R"( dim: 8 dim: 64 dim: 64 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv'
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'sigmoid' type: 'Sigmoid' bottom: 'conv' top: 'sigmoid' }
layer { name: 'loss' type: 'Reduction' bottom: 'sigmoid' top: 'loss' loss_weight: 1
  reduction_param { operation: MEAN } })");
}

void Train(int batch, const BoundedGpu& gpu) {
  test::Recorder recorder;
  SolverOptions options = test::OptionsFor(&recorder);
  options.device = gpu.device();
  options.device_update = MakeGpuUpdate;
  const std::string text = StrCat("net_param { ", Net(batch), " } base_lr: 0.1 lr_policy: 'fixed' ",
                                  "momentum: 0.9 ema_decay: 0.5 max_iter: 2 random_seed: 1 ",
                                  "snapshot_after_train: false ");
  Solver(test::ConfigOf(text), test::LayersWithGpuImplementations(), std::move(options)).Solve();
}

std::string ShortageOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
    return error.what();
  }
  return "there was room";
}

int BatchIn(const std::string& message) {
  std::smatch found;
  return std::regex_search(message, found, std::regex("a batch of ([0-9]+) fits"))
             ? std::stoi(found[1])
             : 0;
}

constexpr int64_t kMemory = int64_t{24} << 20;

TEST(GpuMemory, TrainingNamesTheLayerAndTheLargestBatchThatFits) {
  const BoundedGpu gpu(kMemory);
  const std::string message = ShortageOf([&] { Train(64, gpu); });
  for (const char* part :
       {"layer \"", "training needs ", " on cuda:0, of which 24.0 MiB are free",
        "pass of this layer", "for histories, averages and test nets", "The batch is 64; "}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(gpu.free(), kMemory);  // nothing was kept
  const int batch = BatchIn(message);
  ASSERT_GT(batch, 4) << message;
  ASSERT_LT(batch, 64) << message;
  EXPECT_NO_THROW(Train(batch, gpu));
  // The advice leaves a MiB free, which is less than a sample or two take.
  EXPECT_NE(BatchIn(ShortageOf([&] { Train(batch + 2, gpu); })), 0);
}

TEST(GpuMemory, ErrorSaysThatNoBatchFits) {
  const BoundedGpu gpu(int64_t{1} << 20);
  const std::string message = ShortageOf([&] { Train(8, gpu); });
  EXPECT_NE(message.find("not even a batch of 1 fits"), std::string::npos) << message;
}

TEST(GpuMemory, EvaluationSaysItToo) {
  const BoundedGpu gpu(kMemory);
  const auto evaluate = [&](int batch) {
    const std::string net = Net(batch);
    const auto plan = test::PlanText(net, TEST, {.backward = false});
    const NetParameter model = Weights::Make(*plan, 5)->Export(*plan);
    EvaluationOptions options{.iterations = 1, .threads = 1, .stages = {}};
    options.device = gpu.device();
    Evaluate(ParseNet(net, "net.prototxt"), model, "m", test::LayersWithGpuImplementations(),
             options);
  };
  const std::string message = ShortageOf([&] { evaluate(128); });
  EXPECT_NE(message.find("evaluation needs "), std::string::npos) << message;
  const int batch = BatchIn(message);
  ASSERT_GT(batch, 0) << message;
  EXPECT_NO_THROW(evaluate(batch));
}

TEST(GpuMemory, ASessionTakesWhatItIsSaidToTake) {
  const BoundedGpu gpu(int64_t{1} << 30);
  const auto plan = test::PlanText(Net(4), TRAIN, {.device = {DeviceType::kCuda, 0}});
  const Session session(plan, Weights::Make(*plan, 1), gpu.device().Context(1, 1));
  const int64_t taken = (int64_t{1} << 30) - gpu.free();
  EXPECT_GE(taken, SessionBytes(*plan));
  EXPECT_LE(taken, SessionBytes(*plan) + 4096);  // allocations are rounded up
}

}  // namespace
}  // namespace crema
