// Recurrent layers carry states from one batch to the next on a GPU too.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "support/gpu.h"
#include "support/net.h"

namespace crema {
namespace {

using test::HostValues;
using test::PlanText;

constexpr int64_t kSteps = 3;
constexpr int64_t kStreams = 4;

std::string NetOf(const std::string& type) {
  return StrCat(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 4 dim: 5 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 4 } } }
layer { name: "cell" type: ")",
                type, R"(" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 6
  weight_filler { type: "uniform" min: -0.7 max: 0.7 }
  bias_filler { type: "uniform" min: -0.5 max: 0.5 } } }
layer { name: "loss" type: "Reduction" bottom: "h" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)");
}

struct Planned {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Session> session;
};

Planned MakePlanned(const std::string& type, bool gpu) {
  PlanOptions options;
  if (gpu) options.device = {DeviceType::kCuda, 0};
  options.threads = 1;
  Planned run;
  run.plan = PlanText(NetOf(type), TRAIN, options);
  run.session = std::make_unique<Session>(run.plan, Weights::Make(*run.plan, 3),
                                          gpu ? test::GpuContext(3) : ExecContext(1, 3));
  return run;
}

void Set(Session* session, const std::string& name, const std::vector<float>& values) {
  session->Write(session->MutableData(name), values.data());
}

// Batch `number` of `streams` in which sequences begin here and there.
void SetBatch(Session* session, uint64_t number, int64_t streams, bool all_begin = false) {
  const RandomStream stream(5, number);
  std::vector<float> x(static_cast<size_t>(kSteps * streams * 5));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * stream.Uniform(i) - 1);
  std::vector<float> cont(static_cast<size_t>(kSteps * streams));
  for (size_t i = 0; i < cont.size(); ++i) {
    const bool begins = stream.Uniform(1000 + i) < 0.2;
    const bool first = static_cast<int64_t>(i) < streams;
    cont[i] = begins || (first && all_begin) ? 0.0F : 1.0F;
  }
  Set(session, "x", x);
  Set(session, "cont", cont);
}

// The hidden states, the loss and the gradients of the next batch.
std::vector<std::vector<float>> Step(Session* session) {
  std::vector<std::vector<float>> numbers;
  numbers.push_back({static_cast<float>(session->Forward())});
  numbers.push_back(HostValues(*session, session->Data("h")));
  session->ZeroParameterGradients();
  session->Backward();
  for (size_t s = 0; s < session->plan().parameters.size(); ++s) {
    numbers.push_back(HostValues(*session, session->ParameterGradient(s)));
  }
  return numbers;
}

void ExpectNear(const std::vector<std::vector<float>>& a,
                const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].size(), b[k].size());
    for (size_t i = 0; i < a[k].size(); ++i) {
      ASSERT_NEAR(a[k][i], b[k][i], 1e-4 * (1 + std::abs(a[k][i]))) << k << ", " << i;
    }
  }
}

class CarriedState : public testing::TestWithParam<const char*> {};

TEST_P(CarriedState, GoesOnAsOnTheCpu) {
  const Planned cpu = MakePlanned(GetParam(), false);
  const Planned gpu = MakePlanned(GetParam(), true);
  for (uint64_t batch = 0; batch < 4; ++batch) {
    SetBatch(cpu.session.get(), batch, kStreams);
    SetBatch(gpu.session.get(), batch, kStreams);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(Step(cpu.session.get()), Step(gpu.session.get()))) << batch;
  }
}

TEST_P(CarriedState, MattersToTheNextBatch) {
  const Planned run = MakePlanned(GetParam(), true);
  SetBatch(run.session.get(), 1, kStreams);
  const auto first = Step(run.session.get());
  EXPECT_NE(first, Step(run.session.get()));
}

TEST_P(CarriedState, IsInSnapshots) {
  const Planned run = MakePlanned(GetParam(), true);
  SetBatch(run.session.get(), 0, kStreams);
  Step(run.session.get());
  SolverState state;
  run.session->SaveState("train", &state);
  SetBatch(run.session.get(), 1, kStreams);
  const auto expected = Step(run.session.get());
  const Planned resumed = MakePlanned(GetParam(), true);
  resumed.session->RestoreState("train", state);
  SetBatch(resumed.session.get(), 1, kStreams);
  EXPECT_EQ(Step(resumed.session.get()), expected);
}

TEST_P(CarriedState, OtherNumberOfStreamsIsRefusedUnlessAllSequencesBegin) {
  const Planned run = MakePlanned(GetParam(), true);
  SetBatch(run.session.get(), 0, kStreams);
  Step(run.session.get());
  run.session->Reshape("x", Shape({kSteps, 2, 5}));
  run.session->Reshape("cont", Shape({kSteps, 2}));
  SetBatch(run.session.get(), 1, 2, true);
  EXPECT_NO_THROW(Step(run.session.get()));
  run.session->Reshape("x", Shape({kSteps, kStreams, 5}));
  run.session->Reshape("cont", Shape({kSteps, kStreams}));
  SetBatch(run.session.get(), 3, kStreams);
  try {
    run.session->Forward();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("this batch has 4 streams"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, CarriedState, testing::Values("LSTM", "RNN", "GRU"));

}  // namespace
}  // namespace crema
