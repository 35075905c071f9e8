// Runs on several GPUs for tests: by NCCL where the machine has as many, else on the GPU of tests
// or its stand-in in the place of all.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "parallel/collective.h"
#include "runtime/gpu.h"
#include "solvers/device_update.h"
#include "solvers/parallel_run.h"
#include "solvers/resume.h"
#include "support/gpu.h"
#include "support/host_collective.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {

inline SolverOptions GpuOptions(Recorder* recorder) {
  SolverOptions options = OptionsFor(recorder);
  options.device = GpuDevice();
  options.device_update = MakeGpuUpdate;
  return options;
}

// A solver on one GPU, or those of all ranks.
struct Training {
  std::unique_ptr<ParallelRun> parallel;  // null: one
  std::unique_ptr<Solver> first;
  int ranks = 1;

  Solver& rank(int r) const { return r == 0 ? *first : parallel->other(r); }
  void All(const std::function<void(Solver&)>& body) const {
    if (parallel) return parallel->Run(first.get(), body);
    body(*first);
  }
  void Solve() const {
    All([](Solver& solver) { solver.Solve(); });
  }
  void Step(int64_t count) const {
    All([count](Solver& solver) { solver.Step(count); });
  }
};

inline Training MakeTraining(int ranks, const std::string& text, SolverOptions options,
                             const std::string& state = "",
                             std::unique_ptr<Collective> collective = nullptr) {
  const RunConfig config = ConfigOf(text);
  const Registry& registry = LayersWithGpuImplementations();
  Training run;
  run.ranks = ranks;
  if (ranks > 1) {
    std::vector<ComputeDevice> devices(static_cast<size_t>(ranks), options.device);
    if (!collective && GpuCount() >= ranks) {
      std::vector<int> gpus;
      for (int rank = 0; rank < ranks; ++rank) gpus.push_back(rank);
      for (const int gpu : gpus) devices[static_cast<size_t>(gpu)] = OpenGpu(gpu);
      collective = MakeGpuCollective(gpus);
    }
    if (!collective) collective = std::make_unique<HostCollective>(ranks);
    run.parallel = std::make_unique<ParallelRun>(devices, std::move(collective));
    options = run.parallel->OptionsOfFirst(options);
  }
  run.first = state.empty() ? std::make_unique<Solver>(config, registry, options)
                            : ResumeFrom(state, config, registry, options);
  if (run.parallel) run.parallel->MakeOthers(*run.first, config, registry, options, state);
  return run;
}

// Statistics are each rank's own.
inline std::vector<std::vector<float>> ParametersOf(Solver& solver) {
  std::vector<std::vector<float>> values = ValuesOf(solver.weights());
  for (size_t s = 0; s < values.size(); ++s) {
    if (solver.plan().parameters[s].statistic) values[s].clear();
  }
  return values;
}

inline void ExpectSameWeights(const Training& run) {
  const auto first = ParametersOf(*run.first);
  for (int r = 1; r < run.ranks; ++r) {
    const auto own = ParametersOf(run.rank(r));
    ASSERT_EQ(own.size(), first.size());
    for (size_t s = 0; s < own.size(); ++s) {
      ASSERT_EQ(own[s].size(), first[s].size());
      EXPECT_EQ(std::memcmp(own[s].data(), first[s].data(), own[s].size() * sizeof(float)), 0)
          << "rank " << r << ", blob " << s;
    }
    EXPECT_EQ(run.rank(r).iteration(), run.first->iteration());
  }
}

inline std::string MessageOf(const Training& run, ErrorCode code) {
  try {
    run.Solve();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "the run went on";
}

class SeveralGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
  }

  // Like LeNet: neither statistics nor random draws.
  std::string SmallLeNet(int batch, const std::string& fields) const {
    const auto data = [&](const char* phase, const char* set, int size, const char* more) {
      return StrCat("layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: ",
                    phase, " } transform_param { scale: 0.0039 } data_param { source: '",
                    temp_.File(set), "' batch_size: ", size, " backend: LMDB ", more, " } } ");
    };
    return StrCat("net_param { name: 'small' ", data("TRAIN", "train", batch, "shuffle: true"),
                  data("TEST", "test", 3, ""), R"(
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 4 kernel_size: 2 pad: 1 weight_filler { type: "xavier" } }
  param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { kernel_size: 2 stride: 1 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool" top: "ip1"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 13 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
} random_seed: 5 snapshot_prefix: ')",
                  temp_.File("s"), "' ", fields);
  }
  // With statistics and random draws.
  std::string Regression(const std::string& fields) const {
    std::string net = RegressionNet(temp_.path(), 4, 3);
    net.insert(net.find("layer { name: \"relu\""), R"(
layer { name: "norm" type: "BatchNorm" bottom: "hidden" top: "hidden" }
layer { name: "scale" type: "Scale" bottom: "hidden" top: "hidden" scale_param { bias_term: true } }
)");
    return StrCat("net_param { ", net, " } base_lr: 0.01 random_seed: 5 snapshot_prefix: '",
                  temp_.File("s"), "' ", fields);
  }
  Training Make(int ranks, const std::string& text, const std::string& state = "") {
    recorder_ = {};
    return MakeTraining(ranks, text, GpuOptions(&recorder_), state);
  }
  std::vector<std::vector<float>> Told() const {
    std::vector<std::vector<float>> told;
    for (const IterationReport& report : recorder_.iterations) {
      told.push_back({static_cast<float>(report.loss), static_cast<float>(report.smoothed_loss),
                      static_cast<float>(report.samples)});
    }
    for (const TestReport& report : recorder_.tests) {
      for (const OutputValue& output : report.outputs) {
        told.push_back({static_cast<float>(output.value)});
      }
    }
    return told;
  }

  TempDir temp_;
  Recorder recorder_;
};

}  // namespace crema::test
