// The generic checker finds the faults that are planted into a small layer, and finds none in the
// layer without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/implementation.h"
#include "support/layer_case.h"
#include "support/layer_checker.h"

namespace crema::test {
namespace {

enum class Fault {
  kNone,
  kGradientOffByAThousandth,
  kParameterGradientOffByAThousandth,
  kParameterGradientAssigned,
  kInputGradientAdded,
  kOutputPastEnd,
  kOutputBeforeBegin,
  kScratchPastEnd,
  kParameterGradientPastEnd,
  kOutputUnwritten,
  kInputChanged,
  kUndeclaredInput,
  kInPlaceNotPossible,
  kStateShared,
  kWrongOnSeveralThreads,
  kWrongInFloat,
  kWrongWhenUnsaved,
  kWrongForOneGradient,
  kThrows,
};

// y = w * a + b, element by element; saves a only to have a saved blob.
class Planted final : public Layer {
 public:
  Planted(const LayerParameter& param, Fault fault) : Layer(param), fault_(fault) {}

  LayerInfo Infer(const InferContext& context) const override {
    if (context.inputs[0].shape != context.inputs[1].shape) FailInputs(*this, "shapes differ");
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.parameters = {{"weight", context.inputs[0].shape, {}}};
    info.saved = {context.inputs[0]};
    info.backward_reads_input = {!Has(Fault::kUndeclaredInput)};
    info.in_place = Has(Fault::kInPlaceNotPossible);
    return info;
  }

  size_t ForwardScratch(const InferContext&, const LayerInfo&, int) const override { return 16; }

  void Forward(const ForwardArgs& args) const override {
    if (Has(Fault::kThrows)) throw std::out_of_range("planted");
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) { ForwardTyped<T>(args); });
    ++calls_;
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) { BackwardTyped<T>(args); });
  }

 private:
  bool Has(Fault fault) const { return fault_ == fault; }

  template <typename T>
  void ForwardTyped(const ForwardArgs& args) const {
    const T* a = args.inputs[0].data<T>();
    const T* b = args.inputs[1].data<T>();
    const T* w = args.parameters[0].data<T>();
    T* y = args.outputs[0].data<T>();
    const int64_t count = args.outputs[0].count();
    ParallelFor(args.context.threads(), count, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        y[i] = w[i] * a[i] + b[i];
        if (Has(Fault::kWrongOnSeveralThreads)) y[i] += T(worker);
      }
    });
    if (!args.saved[0].empty()) {
      for (int64_t i = 0; i < count; ++i) args.saved[0].data<T>()[i] = a[i];
    } else if (Has(Fault::kWrongWhenUnsaved)) {
      y[0] += 1;
    }
    if (Has(Fault::kOutputPastEnd)) y[count] = 0;
    if (Has(Fault::kOutputBeforeBegin)) y[-1] = 0;
    if (Has(Fault::kScratchPastEnd)) args.scratch.data()[args.scratch.size()] = std::byte{0};
    if (Has(Fault::kInputChanged)) const_cast<T*>(b)[0] += 1;
    if (Has(Fault::kStateShared) && calls_ % 2 == 1) y[0] += 1;
    if (Has(Fault::kWrongInFloat) && sizeof(T) == sizeof(float)) y[0] *= T(1.01);
    // The bytes that the checker marks fresh memory with.
    if (Has(Fault::kOutputUnwritten)) std::fill_n(reinterpret_cast<uint8_t*>(y), sizeof(T), 0xFF);
  }

  template <typename T>
  void BackwardTyped(const BackwardArgs& args) const {
    const T* dy = args.output_grads[0].data<T>();
    const T* a = args.inputs[0].data<T>();
    const T* w = args.parameters[0].data<T>();
    const int64_t count = args.output_grads[0].count();
    T* dw = args.parameter_grads[0].empty() ? nullptr : args.parameter_grads[0].data<T>();
    const T exact = 1;
    const T off = T(1.001);
    for (int64_t i = 0; i < count && dw != nullptr; ++i) {
      const T grad = dy[i] * a[i] * (Has(Fault::kParameterGradientOffByAThousandth) ? off : exact);
      dw[i] = Has(Fault::kParameterGradientAssigned) ? grad : dw[i] + grad;
    }
    if (Has(Fault::kParameterGradientPastEnd) && dw != nullptr) dw[count] = 0;
    const bool both = !args.input_grads[0].empty() && !args.input_grads[1].empty();
    if (!args.input_grads[1].empty()) {
      std::copy_n(dy, count, args.input_grads[1].data<T>());
    }
    if (args.input_grads[0].empty()) return;
    T* dx = args.input_grads[0].data<T>();
    for (int64_t i = 0; i < count; ++i) {
      const T grad = dy[i] * w[i] * (Has(Fault::kGradientOffByAThousandth) ? off : exact);
      dx[i] = Has(Fault::kInputGradientAdded) ? dx[i] + grad : grad;
    }
    if (Has(Fault::kWrongForOneGradient) && !both) dx[0] = 0;
  }

  const Fault fault_;
  mutable std::atomic<int> calls_ = 0;
};

LayerType TypeWith(Fault fault) {
  LayerType type;
  type.name = "Planted";
  type.inputs = {2, 2};
  type.make = [fault](const LayerParameter& p) {
    return std::make_unique<const Planted>(p, fault);
  };
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {3, 5}}, {.shape = {3, 5}}}}};
  return type;
}

std::string FailuresOf(const LayerType& type) {
  std::string text;
  for (const std::string& failure : CheckLayerSample(type, type.samples[0])) text += failure + "\n";
  return text;
}

struct Planting {
  const char* name;
  Fault fault;
  const char* expected;
};

class PlantedFaultTest : public testing::TestWithParam<Planting> {};

TEST_P(PlantedFaultTest, IsFound) {
  const std::string failures = FailuresOf(TypeWith(GetParam().fault));
  EXPECT_NE(failures.find(GetParam().expected), std::string::npos) << failures;
}

INSTANTIATE_TEST_SUITE_P(
    Checker, PlantedFaultTest,
    testing::Values(
        Planting{"Gradient", Fault::kGradientOffByAThousandth, "gradient of input 0 is"},
        Planting{"ParameterGradient", Fault::kParameterGradientOffByAThousandth,
                 "gradient of parameter blob 0 (weight) is"},
        Planting{"ParameterGradientAssigned", Fault::kParameterGradientAssigned,
                 "gradient of parameter blob 0 (weight) is"},
        Planting{"InputGradientAdded", Fault::kInputGradientAdded, "input gradient 0 unwritten"},
        Planting{"OutputPastEnd", Fault::kOutputPastEnd, "forward wrote outside output 0"},
        Planting{"OutputBeforeBegin", Fault::kOutputBeforeBegin, "forward wrote outside output 0"},
        Planting{"ScratchPastEnd", Fault::kScratchPastEnd, "forward wrote outside scratch"},
        Planting{"ParameterGradientPastEnd", Fault::kParameterGradientPastEnd,
                 "backward wrote outside parameter gradient 0"},
        Planting{"OutputUnwritten", Fault::kOutputUnwritten, "elements of output 0 unwritten"},
        Planting{"InputChanged", Fault::kInputChanged, "forward changed input 1"},
        Planting{"UndeclaredInput", Fault::kUndeclaredInput, "threw:"},
        Planting{"InPlace", Fault::kInPlaceNotPossible, "in place against out of place"},
        Planting{"StateShared", Fault::kStateShared, "run again"},
        Planting{"Threads", Fault::kWrongOnSeveralThreads, "3 threads against 1"},
        Planting{"Float", Fault::kWrongInFloat, "f64 against f32"},
        Planting{"Unsaved", Fault::kWrongWhenUnsaved, "without saving for backward"},
        Planting{"OneGradient", Fault::kWrongForOneGradient, "with the gradient of input 0 alone"},
        Planting{"Throws", Fault::kThrows, "threw: planted"}),
    [](const testing::TestParamInfo<Planting>& planting) { return planting.param.name; });

TEST(CheckerTest, FindsNothingInASoundLayer) { EXPECT_EQ(FailuresOf(TypeWith(Fault::kNone)), ""); }

TEST(CheckerTest, FailuresNameTypeAndSample) {
  const std::string failures = FailuresOf(TypeWith(Fault::kOutputPastEnd));
  EXPECT_TRUE(failures.starts_with("Planted/plain: ")) << failures;
}

TEST(CheckerTest, ComparesOtherImplementationsWithTheNativeOne) {
  LayerType type = TypeWith(Fault::kNone);
  const ImplementationPtr sound = MakeSimpleImplementation({.name = "sound"}, {});
  type.implementations = {sound};
  EXPECT_EQ(FailuresOf(type), "");
  ImplementationFunctions wrong;
  wrong.forward = [](const Layer& layer, const ForwardArgs& args) {
    layer.Forward(args);
    DispatchFloat(args.outputs[0].dtype(),
                  [&]<typename T>(T) { args.outputs[0].data<T>()[3] += T(0.01); });
  };
  type.implementations = {sound, MakeSimpleImplementation({.name = "wrong"}, wrong)};
  const std::string failures = FailuresOf(type);
  EXPECT_NE(failures.find("implementation wrong with 1 threads against native: output 0"),
            std::string::npos)
      << failures;
  EXPECT_EQ(failures.find("implementation sound"), std::string::npos) << failures;
  wrong.supports = [](const OpDesc&) { return Support::No("not today"); };
  type.implementations = {MakeSimpleImplementation({.name = "wrong"}, wrong)};
  EXPECT_EQ(FailuresOf(type), "");
}

TEST(CheckerTest, SamplesMustFitTheArity) {
  LayerType type = TypeWith(Fault::kNone);
  type.inputs = {1, 1};
  EXPECT_NE(FailuresOf(type).find("more or fewer bottoms"), std::string::npos);
}

// y = f(x) of a layer that claims what a test says.
class Claiming final : public Layer {
 public:
  using Work = void (*)(const Shape& shape, const double* x, const double* s, double* y);
  Claiming(const LayerParameter& param, Work work, LayerInfo claims)
      : Layer(param), work_(work), claims_(std::move(claims)) {}

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info = claims_;
    info.outputs = {context.inputs[0]};
    return info;
  }
  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView& x = args.inputs[0];
    const Values wide = Wide(x);
    const Values second = args.inputs.size() > 1 ? Wide(args.inputs[1]) : Values();
    Values y(wide.size());
    work_(x.shape(), wide.data(), second.data(), y.data());
    DispatchFloat(x.dtype(), [&]<typename T>(T) {
      std::ranges::transform(y, args.outputs[0].data<T>(), [](double v) { return T(v); });
    });
  }

 private:
  static Values Wide(const ConstTensorView& view) {
    Values values;
    DispatchFloat(view.dtype(), [&]<typename T>(T) {
      values.assign(view.data<T>(), view.data<T>() + view.count());
    });
    return values;
  }

  const Work work_;
  const LayerInfo claims_;
};

void Square(const Shape& shape, const double* x, const double*, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = x[i] * x[i] + 2;
}
void TimesChannel(const Shape& shape, const double* x, const double*, double* y) {
  const int64_t space = shape.count(2);
  for (int64_t i = 0; i < shape.count(); ++i) {
    y[i] = static_cast<double>(i / space % shape[1] + 2) * x[i];
  }
}
void TimesPlace(const Shape& shape, const double* x, const double*, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = static_cast<double>(i + 2) * x[i];
}
// Each element times the first of its sample, or of the batch.
void TimesFirst(const Shape& shape, const double* x, const double*, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = x[i] * x[i / shape.count(1) * shape.count(1)];
}
void TimesFirstOfBatch(const Shape& shape, const double* x, const double*, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = x[i] * x[0];
}
void TimesSecond(const Shape& shape, const double* x, const double* s, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = x[i] * s[0];
}
void ReverseSample(const Shape& shape, const double* x, const double*, double* y) {
  const int64_t size = shape.count(1);
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = x[i / size * size + size - 1 - i % size];
}
void OnesAndTwos(const Shape& shape, const double*, const double*, double* y) {
  for (int64_t i = 0; i < shape.count(); ++i) y[i] = static_cast<double>(1 + i % 2);
}

LayerInfo Claims(Reach reach, bool moves_only = false) {
  LayerInfo info;
  info.reach = reach;
  info.moves_only = moves_only;
  return info;
}
LayerInfo ClaimsConstant() {
  LayerInfo info;
  info.constant = true;
  return info;
}
LayerInfo ClaimsShared(Reach reach, std::vector<bool> shared) {
  LayerInfo info = Claims(reach);
  info.shared_inputs = std::move(shared);
  return info;
}

struct Claim {
  std::string name;
  Claiming::Work work;
  LayerInfo claims;
  std::string expected;  // of the only failure; empty: none
  std::vector<SampleInput> inputs = {{.shape = {1, 3, 2, 2}}};
};

std::ostream& operator<<(std::ostream& out, const Claim& claim) { return out << claim.name; }

class ClaimedFactTest : public testing::TestWithParam<Claim> {};

TEST_P(ClaimedFactTest, IsComparedWithRuns) {
  LayerType type;
  type.name = "Claiming";
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Claiming>(p, GetParam().work, GetParam().claims);
  };
  const LayerSample sample{
      .name = "plain", .prototxt = "", .inputs = GetParam().inputs, .gradient = false};
  const std::vector<std::string> failures = CheckLayerSample(type, sample);
  if (GetParam().expected.empty()) {
    EXPECT_EQ(failures, std::vector<std::string>{});
    return;
  }
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_TRUE(failures[0].starts_with("Claiming/plain: ")) << failures[0];
  EXPECT_NE(failures[0].find(GetParam().expected), std::string::npos) << failures[0];
}

const std::string kMissing = "write info.reach = Reach::";
const std::string kFalse = "but runs show Reach::";
const std::vector<SampleInput> kTwoInputs{{.shape = {2, 3, 2, 2}}, {.shape = {5}}};

INSTANTIATE_TEST_SUITE_P(
    Checker, ClaimedFactTest,
    testing::Values(
        Claim{"Element", Square, Claims(Reach::kElement), ""},
        Claim{"ElementMissing", Square, Claims(Reach::kPlace), kMissing + "kElement"},
        Claim{"ElementMissingOfAll", Square, Claims(Reach::kAll), kMissing + "kElement"},
        Claim{"Place", TimesChannel, Claims(Reach::kPlace), ""},
        Claim{"PlaceMissing", TimesChannel, Claims(Reach::kSample), kMissing + "kPlace"},
        Claim{"PlaceFalse", TimesChannel, Claims(Reach::kElement), kFalse + "kPlace"},
        Claim{"Sample", TimesFirst, Claims(Reach::kSample), ""},
        Claim{"SampleMissing", TimesFirst, Claims(Reach::kAll), kMissing + "kSample"},
        Claim{"SampleFalse", TimesFirst, Claims(Reach::kPlace), kFalse + "kSample"},
        Claim{"All", TimesFirstOfBatch, Claims(Reach::kAll), ""},
        Claim{"AllFalse", TimesFirstOfBatch, Claims(Reach::kSample), kFalse + "kAll"},
        Claim{"ByPlaceInTheBatch", TimesPlace, Claims(Reach::kAll), ""},
        Claim{"ByPlaceInTheBatchFalse", TimesPlace, Claims(Reach::kSample), kFalse + "kAll"},
        Claim{"Moves", ReverseSample, Claims(Reach::kSample, true), ""},
        Claim{"MovesMissing", ReverseSample, Claims(Reach::kSample), "info.moves_only = true"},
        Claim{"MovesFalse", Square, Claims(Reach::kElement, true), "remove info.moves_only"},
        Claim{"Constant", OnesAndTwos, ClaimsConstant(), ""},
        Claim{"ConstantMissing", OnesAndTwos, Claims(Reach::kAll), "info.constant = true"},
        Claim{"ConstantFalse", Square, ClaimsConstant(), "remove info.constant"},
        Claim{"Shared", TimesSecond, ClaimsShared(Reach::kElement, {false, true}), "", kTwoInputs},
        Claim{"SharedMissing", TimesSecond, Claims(Reach::kAll), "info.shared_inputs", kTwoInputs},
        Claim{"SharedFalse", TimesSecond, Claims(Reach::kSample), kFalse + "kAll", kTwoInputs}),
    [](const testing::TestParamInfo<Claim>& claim) { return claim.param.name; });

std::vector<std::string> CheckBad(const std::string& prototxt, const std::string& expect,
                                  std::vector<std::vector<int64_t>> shapes = {{2}, {3}}) {
  return CheckBadSample(
      TypeWith(Fault::kNone),
      {.prototxt = prototxt, .input_shapes = std::move(shapes), .expect = expect});
}

TEST(CheckerTest, BadSamplesMustBeRefusedWithTheExpectedWords) {
  EXPECT_TRUE(CheckBad("", "shapes differ").empty());
  EXPECT_EQ(CheckBad("", "something else").size(), 1u);
  EXPECT_EQ(CheckBad("", "shapes differ", {{2}, {2}}).size(), 1u);
  // A sample whose text does not parse shows nothing about the layer.
  EXPECT_EQ(CheckBad("no_such_field: 1", "does not parse").size(), 1u);
}

TEST(CheckerTest, BadSamplesMustNameTheLayer) {
  LayerType type = TypeWith(Fault::kNone);
  type.make = [](const LayerParameter&) -> std::unique_ptr<const Layer> {
    Fail(ErrorCode::kInvalidArgument, "anonymous");
  };
  EXPECT_EQ(
      CheckBadSample(type, {.prototxt = "", .input_shapes = {}, .expect = "anonymous"}).size(), 1u);
}

}  // namespace
}  // namespace crema::test
