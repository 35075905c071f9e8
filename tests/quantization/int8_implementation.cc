#include "quantization/int8_implementation.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "math/int8_weights.h"
#include "support/net.h"

namespace crema::test {
namespace {

// 1/1000 of a step: the effect of a few single-precision roundings of numbers up to 255 steps, and
// of the order of sums.
constexpr double kByteTolerance = 1e-3;
constexpr double kFloatTolerance = 1e-5;  // relative to the largest

double StepOf(double max, bool is_signed) { return float(max) / (is_signed ? 127.0F : 255.0F); }

LayerParameter ParamOf(const Int8Case& c) {
  std::string text = StrCat("name: 'l' type: '", c.type, "' top: 'y' precision: INT8 ", c.fields,
                            " int8 { top { max: ", c.out_max,
                            " non_negative: ", c.signed_out ? "false" : "true", " }");
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    text += StrCat(" bottom { max: ", c.in_max, " non_negative: ", c.signed_in ? "false" : "true",
                   " }");
  }
  text += " }";
  for (size_t i = 0; i < c.inputs.size(); ++i) text += StrCat(" bottom: 'x", i, "'");
  LayerParameter param;
  CREMA_CHECK(google::protobuf::TextFormat::ParseFromString(text, &param));
  param.set_phase(TEST);
  return param;
}

// Bytes in the layout of the implementation (pixels) and of the native method (planes).
struct Bytes {
  std::vector<uint8_t> pixels;
  std::vector<double> planes;
};

Bytes DrawBytes(const Shape& s, bool is_signed, double step, bool extreme,
                const RandomStream& random, bool pixels_first) {
  Bytes bytes;
  bytes.pixels.resize(static_cast<size_t>(s.count()));
  bytes.planes.resize(bytes.pixels.size());
  const int64_t channels = pixels_first ? s[1] : 1;
  const int64_t pixels = pixels_first ? s.count(2) : s.count(1);
  for (int64_t i = 0; i < s.count(); ++i) {
    const int64_t n = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
    int q = static_cast<int>(random.Below(static_cast<uint64_t>(i), 256)) - (is_signed ? 128 : 0);
    if (extreme) q = is_signed ? (q < 0 ? -128 : 127) : 255;
    bytes.planes[static_cast<size_t>(i)] = q * step;
    bytes.pixels[static_cast<size_t>((n * pixels + p) * channels + c)] = static_cast<uint8_t>(q);
  }
  return bytes;
}

class Run {
 public:
  Run(const Int8Case& c, uint64_t seed)
      : case_(c), type_(*TestRegistry().Find(c.type)), layer_(type_.make(ParamOf(c))), seed_(seed) {
    for (const Shape& shape : c.inputs) {
      specs_.push_back({shape, DType::kF32});
      wide_.push_back({shape, DType::kF64});
    }
    context_ = {.phase = TEST, .inputs = specs_, .output_count = 1};
    info_ = layer_->Infer(context_);
    for (const LayerParameter& param : c.fused) {
      followers_.push_back(TestRegistry().Find(param.type())->make(param));
      fused_layers_.push_back(followers_.back().get());
    }
  }

  Int8Outcome Do() {
    const OpDesc query{.layer = *layer_,
                       .context = context_,
                       .info = info_,
                       .threads = case_.threads,
                       .precision = INT8,
                       .fused = fused_layers_};
    const auto row =
        std::ranges::find(type_.implementations, case_.implementation, &Implementation::name);
    CREMA_CHECK(row != type_.implementations.end());
    Int8Outcome outcome;
    const Implementation& implementation = **row;
    const Support support = implementation.Supports(query);
    if (!support.yes) {
      outcome.refused = support.reason;
      return outcome;
    }
    Draw(implementation.input_format.type == DType::kU8);
    RunImplementation(implementation, query, &outcome);
    RunNative(&outcome);
    return outcome;
  }

 private:
  const LayerParameter& Last() const {
    return fused_layers_.empty() ? layer_->param() : fused_layers_.back()->param();
  }
  bool Adds() const {
    return std::ranges::any_of(fused_layers_,
                               [](const Layer* l) { return l->param().bottom_size() == 2; });
  }

  bool Scales() const {
    return std::ranges::any_of(fused_layers_,
                               [](const Layer* l) { return l->param().type() == "Scale"; });
  }
  // Factor of a fused Scale for an output.
  float FactorOf(int64_t output) const {
    return factors_.empty() ? 1.0F : factors_[static_cast<size_t>(output)];
  }

  void Draw(bool bytes_in) {
    const double step = StepOf(case_.in_max, case_.signed_in);
    for (size_t i = 0; i < specs_.size(); ++i) {
      const RandomStream random(seed_, i);
      const bool pixels = bytes_in && specs_[i].shape.axes() == 4;
      inputs_.push_back(
          DrawBytes(specs_[i].shape, case_.signed_in, step, case_.extreme, random, pixels));
    }
    if (Adds()) {
      added_ = DrawBytes(info_.outputs[0].shape, true, StepOf(kAddedMax, true), false,
                         RandomStream(seed_, 50), true);
    }
    for (size_t b = 0; b < info_.parameters.size(); ++b) parameters_.push_back(DrawParameter(b));
    if (Scales()) {
      const RandomStream random(seed_, 99);
      for (int64_t c = 0; c < info_.outputs[0].shape[1]; ++c) {
        factors_.push_back(static_cast<float>(random.Uniform(static_cast<uint64_t>(c)) * 4 - 2));
      }
    }
  }

  std::vector<float> DrawParameter(size_t blob) const {
    const Shape& shape = info_.parameters[blob].shape;
    const RandomStream random(seed_, 100 + blob);
    std::vector<float> values(static_cast<size_t>(shape.count()));
    const int64_t depth = shape.count(1);
    for (int64_t i = 0; i < shape.count(); ++i) {
      auto v = static_cast<float>((random.Uniform(static_cast<uint64_t>(i)) * 2 - 1) *
                                  case_.weight_scale);
      if (blob == 0 && i / depth == case_.zero_output) v = 0;
      if (blob == 0 && i / depth == case_.equal_output) v = 0.25F;
      if (blob == 0 && case_.extreme) v = i / depth % 2 == 0 ? 1.0F : -1.0F;
      values[static_cast<size_t>(i)] = v;
    }
    return values;
  }

  void RunImplementation(const Implementation& implementation, const OpDesc& query,
                         Int8Outcome* outcome) {
    const Shape& y_shape = info_.outputs[0].shape;
    const bool bytes_out = implementation.output_format.type == DType::kU8;
    const bool bytes_in = implementation.input_format.type == DType::kU8;
    std::vector<std::vector<float>> floats;
    std::vector<ConstTensorView> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      floats.emplace_back(inputs_[i].planes.begin(), inputs_[i].planes.end());
      inputs.emplace_back(bytes_in ? static_cast<const void*>(inputs_[i].pixels.data())
                                   : static_cast<const void*>(floats[i].data()),
                          specs_[i].shape, bytes_in ? DType::kU8 : DType::kF32);
    }
    if (Adds()) inputs.emplace_back(added_.pixels.data(), y_shape, DType::kU8);
    Tensor y(y_shape.With(1, StoredCount({y_shape, DType::kF32, implementation.output_format}) /
                                 std::max<int64_t>(1, y_shape.count() / y_shape[1])),
             bytes_out ? DType::kU8 : DType::kF32);
    const TensorView output(y.view().raw(), y_shape, y.dtype());
    std::vector<ConstTensorView> parameters;
    for (size_t b = 0; b < parameters_.size(); ++b) {
      parameters.emplace_back(parameters_[b].data(), info_.parameters[b].shape, DType::kF32);
    }
    if (Scales()) {
      parameters.emplace_back(factors_.data(), Shape{static_cast<int64_t>(factors_.size())},
                              DType::kF32);
    }
    const size_t bytes = implementation.NeedsOf(query).forward_scratch;
    Tensor scratch(Shape{static_cast<int64_t>(bytes / 64) + 1, 16}, DType::kF32);
    const std::unique_ptr<ImplementationState> state = implementation.MakeState(query);
    ExecContext context(case_.threads, 1);
    ForwardArgs args{.context = context,
                     .phase = TEST,
                     .layer_id = 1,
                     .inputs = inputs,
                     .outputs = {&output, 1},
                     .parameters = parameters,
                     .saved = {},
                     .scratch = {static_cast<std::byte*>(scratch.view().raw()), bytes},
                     .state = nullptr,
                     .implementation_state = state.get(),
                     .weights_fixed = case_.fixed};
    implementation.Forward(*layer_, args);
    implementation.Forward(*layer_, args);  // its packed weights must work, too
    TakeOutput(implementation.output_format, output, outcome);
  }

  void TakeOutput(MemoryFormat format, const TensorView& y, Int8Outcome* outcome) const {
    const Shape& s = y.shape();
    const int64_t channels = s[1], pixels = s.count(2);
    const Int8Range& range = Last().int8().top(0);
    const bool is_signed = !range.non_negative();
    if (format.type == DType::kU8) {
      outcome->step = StepOf(range.max(), is_signed);
      outcome->lowest = is_signed ? -128 : 0;
      outcome->highest = is_signed ? 127 : 255;
    }
    for (int64_t i = 0; i < s.count(); ++i) {
      const int64_t n = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
      if (format.type == DType::kU8) {
        const uint8_t byte = static_cast<const uint8_t*>(y.raw())[(n * pixels + p) * channels + c];
        outcome->made.push_back((is_signed ? int{static_cast<int8_t>(byte)} : int{byte}) *
                                outcome->step);
      } else if (format == MemoryFormat{Layout::kBlocked}) {
        const int64_t b = ChannelBlock(), blocks = (channels + b - 1) / b;
        outcome->made.push_back(y.data<float>()[((n * blocks + c / b) * pixels + p) * b + c % b]);
      } else {
        outcome->made.push_back(y.data<float>()[i]);
      }
    }
  }

  // Weights rounded like the implementation rounds them.
  std::vector<double> RoundedWeights() const {
    const bool transposed =
        case_.type == "InnerProduct" && layer_->param().inner_product_param().transpose();
    const Shape& shape = info_.parameters[0].shape;
    const int64_t rows = transposed ? shape[shape.axes() - 1] : shape[0];
    std::vector<double> rounded(parameters_[0].begin(), parameters_[0].end());
    const auto row_of = [&](int64_t i) {
      return transposed ? i % rows : i / (shape.count() / rows);
    };
    for (int64_t i = 0; i < shape.count(); ++i) {
      const auto at = static_cast<size_t>(i);
      rounded[at] = double{parameters_[0][at] * FactorOf(row_of(i))};
    }
    std::vector<double> most(static_cast<size_t>(rows));
    for (int64_t i = 0; i < shape.count(); ++i) {
      double& m = most[static_cast<size_t>(row_of(i))];
      m = std::max(m, std::abs(rounded[static_cast<size_t>(i)]));
    }
    for (int64_t i = 0; i < shape.count(); ++i) {
      const auto step =
          static_cast<double>(static_cast<float>(most[static_cast<size_t>(row_of(i))]) /
                              static_cast<float>(LargestInt8Weight()));
      double& w = rounded[static_cast<size_t>(i)];
      // As floats, so that ties are rounded the same way.
      if (step > 0)
        w = std::nearbyint(static_cast<float>(w) * (1 / static_cast<float>(step))) * step;
    }
    return rounded;
  }

  void RunNative(Int8Outcome* outcome) {
    const InferContext context{
        .phase = TEST, .inputs = wide_, .output_count = 1, .dtype = DType::kF64};
    const LayerInfo info = layer_->Infer(context);
    std::vector<ConstTensorView> inputs, parameters;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs.emplace_back(inputs_[i].planes.data(), wide_[i].shape, DType::kF64);
    }
    std::vector<std::vector<double>> blobs;
    for (size_t b = 0; b < parameters_.size(); ++b) {
      blobs.push_back(b == 0 ? RoundedWeights()
                             : std::vector<double>(parameters_[b].begin(), parameters_[b].end()));
      for (size_t o = 0; b == 1 && o < blobs[b].size(); ++o) {
        blobs[b][o] *= double{FactorOf(static_cast<int64_t>(o))};
      }
      parameters.emplace_back(blobs[b].data(), info.parameters[b].shape, DType::kF64);
    }
    outcome->expected.resize(static_cast<size_t>(info.outputs[0].shape.count()));
    const TensorView y(outcome->expected.data(), info.outputs[0].shape, DType::kF64);
    const size_t bytes = layer_->ForwardScratch(context, info, 1);
    Tensor scratch(Shape{static_cast<int64_t>(bytes / 64) + 1, 16}, DType::kF32);
    ExecContext exec(1, 1);
    layer_->Forward({.context = exec,
                     .phase = TEST,
                     .layer_id = 1,
                     .inputs = inputs,
                     .outputs = {&y, 1},
                     .parameters = parameters,
                     .saved = {},
                     .scratch = {static_cast<std::byte*>(scratch.view().raw()), bytes},
                     .state = nullptr});
    for (size_t i = 0; i < outcome->expected.size(); ++i) {
      double& v = outcome->expected[i];
      if (Adds()) v += added_.planes[i];
      const bool relu = !fused_layers_.empty() && Last().type() == "ReLU";
      if (relu && v < 0) v *= double{Last().relu_param().negative_slope()};
    }
  }

  static constexpr double kAddedMax = 17;
  const Int8Case& case_;
  const LayerType& type_;
  const std::unique_ptr<const Layer> layer_;
  const uint64_t seed_;
  std::vector<BlobSpec> specs_, wide_;
  InferContext context_;
  LayerInfo info_;
  std::vector<std::unique_ptr<const Layer>> followers_;
  std::vector<const Layer*> fused_layers_;
  std::vector<Bytes> inputs_;
  Bytes added_;
  std::vector<std::vector<float>> parameters_;
  std::vector<float> factors_;
};

}  // namespace

Int8Outcome RunInt8Implementation(const Int8Case& c, uint64_t seed) { return Run(c, seed).Do(); }

std::string Difference(const Int8Outcome& o) {
  double largest = 1e-30;
  for (double v : o.expected) largest = std::max(largest, std::abs(v));
  double worst = 0;
  std::string text;
  for (size_t i = 0; i < o.expected.size(); ++i) {
    double expected = o.expected[i], allowed = kFloatTolerance * largest;
    if (o.step > 0) {
      expected = std::clamp(expected, o.lowest * o.step, o.highest * o.step);
      allowed = (0.5 + kByteTolerance) * o.step;
    }
    const double beyond = std::abs(o.made[i] - expected) - allowed;
    if (!(beyond > worst) && !std::isnan(o.made[i])) continue;
    worst = beyond;
    text = StrCat("element ", i, " is ", o.made[i], ", expected ", expected, " within ", allowed);
  }
  return o.made.size() == o.expected.size() ? text : "another number of elements";
}

}  // namespace crema::test
