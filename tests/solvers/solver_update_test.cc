// Updates as a solver makes them: multipliers, shared blobs, clipping, iter_size, divergence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "data/batches/memory_feed.h"
#include "support/toy_solver.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

constexpr size_t kSamples = 64;

// Four inputs, two of them through one shared blob, three classes.
std::string Net(int batch) {
  return StrCat("layer { name: 'data' type: 'MemoryData' top: 'x' top: 'label'",
                "  memory_data_param { batch_size: ", batch, " channels: 4 height: 1 width: 1 } }",
                R"(
layer { name: 'hidden' type: 'InnerProduct' bottom: 'x' top: 'h'
  param { name: 'shared' lr_mult: 0.5 decay_mult: 3 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'tanh' type: 'TanH' bottom: 'h' top: 'h' }
layer { name: 'again' type: 'InnerProduct' bottom: 'h' top: 'a' param { name: 'shared' }
  inner_product_param { num_output: 4 bias_term: false } }
layer { name: 'out' type: 'InnerProduct' bottom: 'a' top: 'y'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' })");
}

// A solver of the net above, with its data; snapshots are off.
class Toy {
 public:
  Toy(int batch, const std::string& fields)
      : solver_(SolverOf(Net(batch),
                         "max_iter: 100 random_seed: 5 lr_policy: 'fixed' "
                         "snapshot_after_train: false " +
                             fields)),
        data_(RandomValues<float>(kSamples * 4, 1)) {
    for (size_t i = 0; i < kSamples; ++i) labels_.push_back(static_cast<float>(i * 7 % 3));
    dynamic_cast<MemoryFeed&>(*solver_->session().MutableState("data")).SetArrays(data_, labels_);
  }
  Solver& operator*() { return *solver_; }
  Solver* operator->() { return solver_.get(); }

 private:
  std::unique_ptr<Solver> solver_;
  std::vector<float> data_;
  std::vector<float> labels_;
};

std::string TypeField(const UpdateRule& rule) { return StrCat("type: '", rule.name, "' "); }

double NormOfGradients(Solver& solver) {
  double sum = 0;
  for (size_t s = 0; s < solver.plan().parameters.size(); ++s) {
    if (solver.plan().parameters[s].owner != static_cast<int>(s)) continue;
    for (float g : ValuesOf(solver.session().ParameterGradient(s))) sum += double{g} * g;
  }
  return std::sqrt(sum);
}

// One iteration of a solver is the rule, applied to the gradients of that iteration.
void ExpectRule(const UpdateRule& rule, const std::string& fields, double rate, double decay,
                double scale, double limit = std::numeric_limits<double>::infinity()) {
  SCOPED_TRACE(rule.name);
  Toy toy(8, TypeField(rule) + fields);
  const auto before = WeightsOf(*toy);
  toy->Step(1);
  const auto after = WeightsOf(*toy);
  if (scale < 0) scale = -scale / NormOfGradients(*toy);
  for (size_t s = 0; s < before.size(); ++s) {
    const auto owner = static_cast<size_t>(toy->plan().parameters[s].owner);
    const ParameterSlot& slot = toy->plan().parameters[owner];
    std::vector<UpdateBlob<float>> blob(1);
    blob[0].weights = before[owner];
    blob[0].gradient = ValuesOf(toy->session().ParameterGradient(owner));
    blob[0].history.assign(static_cast<size_t>(rule.histories),
                           std::vector<float>(before[owner].size()));
    blob[0].rate = rate * slot.lr_mult;
    blob[0].decay = decay * slot.decay_mult;
    Update(rule, toy->config().solver.solver, 1, &blob, 0, scale, limit);
    for (size_t i = 0; i < before[s].size(); ++i) {
      EXPECT_NEAR(after[s][i], blob[0].weights[i], 1e-7) << s << " " << i;
    }
    EXPECT_NE(after[s], before[s]);
  }
}

TEST(SolverUpdate, UsesTheMultipliersOfTheOwner) {
  for (const UpdateRule& rule : UpdateRules()) {
    ExpectRule(rule, "base_lr: 0.1 weight_decay: 0.25", 0.1F, 0.25, 1);
  }
}

TEST(SolverUpdate, ClipsTheNormOfTheSumBeforeItIsDivided) {
  for (const UpdateRule& rule : UpdateRules()) {
    ExpectRule(rule, "base_lr: 0.1 clip_gradients: 0.125 iter_size: 2", 0.1F, 0, -0.125 / 2);
    ExpectRule(rule, "base_lr: 0.1 clip_gradients: 1000 iter_size: 2", 0.1F, 0, 0.5);
  }
}

TEST(SolverUpdate, ClipsElementsAfterTheyAreDivided) {
  for (const UpdateRule& rule : UpdateRules()) {
    ExpectRule(rule, "base_lr: 0.1 clip_gradient_value: 0.03125 iter_size: 4", 0.1F, 0, 0.25,
               0.03125);
  }
}

TEST(SolverUpdate, ClippingToNothingLeavesDecayAlone) {
  Toy still(8, "base_lr: 0.1 clip_gradients: 0");
  const auto before = WeightsOf(*still);
  still->Step(3);
  EXPECT_EQ(WeightsOf(*still), before);
  Toy decayed(8, "base_lr: 0.5 clip_gradients: 0 weight_decay: 0.5");
  decayed->Step(1);
  EXPECT_FLOAT_EQ(WeightsOf(*decayed)[3][0], 0.75F * before[3][0]);  // of "out"
}

TEST(SolverUpdate, BothWaysOfClippingAreRefusedWhereTheyStand) {
  try {
    Toy toy(8, "base_lr: 0.1\nclip_gradients: 1\nclip_gradient_value: 1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("clip_gradient_value and clip_gradients are both set"),
              std::string::npos)
        << error.what();
    EXPECT_GT(error.problems()[0].where.line, 1);
    EXPECT_EQ(ExitCode(error.code()), 2);
  }
}

TEST(SolverUpdate, IterSizeAgreesWithTheLargeBatch) {
  for (const UpdateRule& rule : UpdateRules()) {
    const std::string fields = TypeField(rule) + "base_lr: 0.01 weight_decay: 0.01 delta: 1e-3 ";
    Toy whole(16, fields);
    whole->Step(10);
    for (int parts : {2, 4, 8}) {
      Toy split(16 / parts, StrCat(fields, "iter_size: ", parts));
      split->Step(10);
      const auto expected = WeightsOf(*whole);
      const auto got = WeightsOf(*split);
      for (size_t s = 0; s < expected.size(); ++s) {
        for (size_t i = 0; i < expected[s].size(); ++i) {
          EXPECT_NEAR(got[s][i], expected[s][i], 1e-6) << rule.name << " in " << parts;
        }
      }
    }
  }
}

TEST(SolverUpdate, ThreadsDoNotChangeTheUpdate) {
  // Wide enough for several threads in the update; the gradient is the same on each.
  const std::string net = R"(
layer { name: 'data' type: 'DummyData' top: 'x' top: 't'
  dummy_data_param { shape { dim: 1 dim: 400 } shape { dim: 1 dim: 400 }
    data_filler { type: 'constant' value: 0.5 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 400 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' })";
  for (const UpdateRule& rule : UpdateRules()) {
    std::vector<std::vector<std::vector<float>>> weights;
    for (int threads : {1, 2, 4}) {
      SolverOptions options;
      options.threads = threads;
      const auto solver =
          SolverOf(net,
                   "max_iter: 9 random_seed: 5 lr_policy: 'fixed' snapshot_after_train: false "
                   "base_lr: 0.001 clip_gradients: 0.5 " +
                       TypeField(rule),
                   std::move(options));
      solver->Step(1);
      weights.push_back(WeightsOf(*solver));
    }
    EXPECT_EQ(weights[0], weights[1]) << rule.name;
    EXPECT_EQ(weights[0], weights[2]) << rule.name;
  }
}

TEST(SolverUpdate, ParametersThatAreNotTrainedStay) {
  std::string net = Net(8);
  net.replace(net.find("lr_mult: 2"), 10, "lr_mult: 0");
  for (const UpdateRule& rule : UpdateRules()) {
    const auto solver = SolverOf(net, TypeField(rule) +
                                          "max_iter: 9 random_seed: 5 lr_policy: 'fixed' "
                                          "snapshot_after_train: false base_lr: 0.1");
    const std::vector<float> data = RandomValues<float>(kSamples * 4, 1);
    const std::vector<float> labels(kSamples, 1);
    dynamic_cast<MemoryFeed&>(*solver->session().MutableState("data")).SetArrays(data, labels);
    for (float& w : solver->weights().blob(1).span<float>()) w = 0.25F;
    solver->Step(3);
    EXPECT_EQ(WeightsOf(*solver)[1], std::vector<float>(4, 0.25F)) << rule.name;
  }
}

TEST(SolverUpdate, NamesTheLayerThatDiverged) {
  for (const char* type : {"SGD", "Nesterov"}) {
    Toy toy(8, StrCat("type: '", type, "' base_lr: 3e38 weight_decay: 1e10"));
    try {
      toy->Step(1);
      FAIL() << "infinite weights went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDiverged);
      EXPECT_EQ(error.problems()[0].where.layer, "hidden");
      for (const char* part : {"layer \"hidden\"", "iteration 0", "3e+38"}) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
