// Binary: y = f(a, b) for each element, where a and b are broadcast to one shape as in NumPy. With
// one bottom the other operand is a constant.
//   ADD, SUB          da = dy; db = dy or -dy
//   MUL               da = dy * b; db = dy * a
//   DIV               da = dy / b; db = -dy * a / b^2
//   POW               da = dy * b * a^(b - 1); db = dy * a^b * log a, and 0 for a = 0, b >= 0
//   MAX, MIN          dy to the operand that is y, to a if both are
//   MOD, FMOD         da = dy; db = -dy * floor(a / b) or trunc(a / b)
//   PRELU             da = dy where a >= 0, else dy * b; db = 0 where a >= 0, else dy * a
//   INTEGER_DIV       0
//   all others        no gradient
// The gradient of an operand is summed over its repetitions.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/arithmetic/binary_operations.h"
#include "layers/arithmetic/broadcasting.h"
#include "math/broadcast_tiles.h"

namespace crema {
namespace {

constexpr int kOperations = BinaryParameter::Operation_ARRAYSIZE;

template <int kOperation, typename T>
CREMA_MULTIVERSION void ComputeTile(int64_t count, const T* a, const T* b, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = BinaryValue(BinaryOperation{kOperation}, a[i], b[i]);
}

template <int kOperation, int kOperand, typename T>
CREMA_MULTIVERSION void GradientTile(int64_t count, const T* a, const T* b, const T* dy, T* dx) {
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = BinaryGradient(BinaryOperation{kOperation}, kOperand, a[i], b[i], dy[i]);
  }
}

template <typename T>
using Computation = void (*)(int64_t, const T*, const T*, T*);
template <typename T>
using GradientFunction = void (*)(int64_t, const T*, const T*, const T*, T*);

template <typename T, int... k>
Computation<T> ComputationOf(int operation, std::integer_sequence<int, k...>) {
  const std::array<Computation<T>, sizeof...(k)> all{ComputeTile<k, T>...};
  return all[static_cast<size_t>(operation)];
}

template <typename T, int kOperand, int... k>
GradientFunction<T> GradientTileOf(int operation, std::integer_sequence<int, k...>) {
  const std::array<GradientFunction<T>, sizeof...(k)> all{GradientTile<k, kOperand, T>...};
  return all[static_cast<size_t>(operation)];
}

// The operands of a layer and its function, to read and to differentiate.
struct Operands {
  // Returns the operand that an input is.
  int OfInput(size_t input) const {
    return inputs == 1 && value_first ? 1 : static_cast<int>(input);
  }
  // Returns the input that an operand is; -1: it is the value.
  int InputOf(int operand) const {
    if (inputs == 2) return operand;
    return (operand == 1) == value_first ? 0 : -1;
  }
  bool IsSquare() const {
    return operation == BinaryParameter::POW && inputs == 1 && !value_first && value == 2;
  }
  // Reads an operand; `read` false: not at all.
  template <typename T>
  TileReader<T> Reader(const BroadcastMap& map, std::span<const ConstTensorView> views, int operand,
                       bool read = true) const {
    const int input = InputOf(operand);
    if (input < 0) return TileReader<T>(map, static_cast<Compute<T>>(value));
    return TileReader<T>(map, input, read ? views[static_cast<size_t>(input)].data<T>() : nullptr);
  }

  BinaryOperation operation;
  size_t inputs;
  float value;
  bool value_first;
};

// Computes tiles of the gradient of one input. Thread safety: one thread.
template <typename T>
class GradientTiles {
 public:
  using Number = Compute<T>;

  GradientTiles(const BroadcastMap& map, const Operands& operands, const BackwardArgs& args,
                size_t input)
      : gradient_(GradientOf(operands, input)),
        reads_(ReadsOf(operands.operation, operands.OfInput(input))),
        a_(operands.Reader<T>(map, args.inputs, 0, reads_.a)),
        b_(operands.Reader<T>(map, args.inputs, 1, reads_.b)),
        dy_(map, static_cast<int>(operands.inputs), args.output_grads[0].data<T>()) {}

  void Fill(int64_t at, int64_t count, Number* dx) {
    const Number* dy = dy_.Read(at, count);
    // Operands that do not matter are not read; any numbers will do.
    gradient_(count, reads_.a ? a_.Read(at, count) : dy, reads_.b ? b_.Read(at, count) : dy, dy,
              dx);
  }
  const Number* operator()(int64_t at, int64_t count) {
    Fill(at, count, buffer_);
    return buffer_;
  }

 private:
  static GradientFunction<Number> GradientOf(const Operands& operands, size_t input) {
    constexpr auto kAll = std::make_integer_sequence<int, kOperations>();
    return operands.OfInput(input) == 0 ? GradientTileOf<Number, 0>(operands.operation, kAll)
                                        : GradientTileOf<Number, 1>(operands.operation, kAll);
  }

  const GradientFunction<Number> gradient_;
  const GradientReads reads_;
  TileReader<T> a_, b_, dy_;
  alignas(64) Number buffer_[kTileSize];
};

class Binary final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const size_t count = context.inputs.size();
    CheckValue(count == 2);
    LayerInfo info;
    SetBroadcastFacts(*this, context.inputs, &info);
    info.moves_only =
        count == 2 && (Operation() == BinaryParameter::MAX || Operation() == BinaryParameter::MIN);
    const Operands operands = OperandsOf(count);
    if (!HasGradient(Operation())) info.gradient_forbidden.assign(count, true);
    info.backward_reads_input.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      const GradientReads reads = ReadsOf(Operation(), operands.OfInput(i));
      for (const int operand : {0, 1}) {
        const int input = operands.InputOf(operand);
        if (input < 0 || !(operand == 0 ? reads.a : reads.b)) continue;
        info.backward_reads_input[static_cast<size_t>(input)] = true;
      }
    }
    info.in_place =
        IsWhole(context.inputs[0], info.outputs[0].shape) && !info.backward_reads_input[0];
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const BroadcastMap map = MapOfInputs(args.outputs[0].shape(), args.inputs);
    const Operands operands = OperandsOf(args.inputs.size());
    DispatchStored(args.outputs[0].dtype(), [&]<typename T>(T) {
      // A loop with powers has branches; that of a product is vectorised.
      const bool square = operands.IsSquare();
      const auto compute =
          ComputationOf<Compute<T>>(square ? BinaryParameter::MUL : Operation(),
                                    std::make_integer_sequence<int, kOperations>());
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), map.count, Grain(), [&](int64_t begin, int64_t end, int) {
        TileReader<T> a = operands.Reader<T>(map, args.inputs, 0);
        TileReader<T> b = operands.Reader<T>(map, args.inputs, square ? 0 : 1);
        TileWriter<T> writer;
        ForEachTile(map, begin, end, [&](int64_t at, int64_t count) {
          writer.Write(y + at, count, [&](Compute<T>* to) {
            compute(count, a.Read(at, count), b.Read(at, count), to);
          });
        });
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchStored(args.output_grads[0].dtype(), [&]<typename T>(T) {
      // Input 0 last, since its gradient may share memory with dy.
      for (size_t i = args.input_grads.size(); i-- > 0;) {
        if (!args.input_grads[i].empty()) Differentiate<T>(args, i);
      }
    });
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const override {
    return GradientSumScratch(info.outputs[0].shape, context.inputs);
  }

 private:
  BinaryOperation Operation() const { return param().binary_param().operation(); }
  Operands OperandsOf(size_t inputs) const {
    const BinaryParameter& binary = param().binary_param();
    return {Operation(), inputs, binary.value(), binary.value_first()};
  }

  // Returns the minimum number of elements per thread.
  int64_t Grain() const {
    const bool costly = Operation() == BinaryParameter::POW ||
                        Operation() == BinaryParameter::MOD || Operation() == BinaryParameter::FMOD;
    return costly ? kTileGrain / 8 : kTileGrain;
  }

  void CheckValue(bool two_bottoms) const {
    const BinaryParameter& binary = param().binary_param();
    if (!two_bottoms && !binary.has_value()) {
      FailField(*this, "binary_param.value",
                "value is missing; with one bottom it is the other operand");
    }
    if (two_bottoms && binary.has_value()) {
      FailField(*this, "binary_param.value", "value is for one bottom; remove it or a bottom");
    }
    if (two_bottoms && binary.value_first()) {
      FailField(*this, "binary_param.value_first",
                "value_first is for one bottom; exchange the bottoms instead");
    }
  }

  template <typename T>
  void Differentiate(const BackwardArgs& args, size_t input) const {
    const BroadcastMap map = MapOfInputs(args.output_grads[0].shape(), args.inputs);
    const Operands operands = OperandsOf(args.inputs.size());
    WriteGradient<T>(args, map, input, Grain(),
                     [&] { return GradientTiles<T>(map, operands, args, input); });
  }
};

LayerSample Sample(std::string name, const std::string& fields, std::vector<SampleInput> inputs) {
  return {.name = std::move(name),
          .prototxt = fields.empty() ? "" : "binary_param { " + fields + " }",
          .inputs = std::move(inputs)};
}

// Each operation on two bottoms that has a gradient.
std::vector<LayerSample> SmoothSamples() {
  const SampleInput any{.shape = {2, 3, 4, 5}};
  const SampleInput channel{.shape = {3, 1, 1}};
  const SampleInput positive{.shape = {2, 3, 4, 5}, .low = 0.3, .high = 2};
  const SampleInput positive_channel{.shape = {3, 1, 1}, .low = 0.5, .high = 2};
  const SampleInput distinct{.shape = {2, 3, 4}, .distinct = true};
  const SampleInput kinked{.shape = {2, 3, 4, 5}, .has_kink = true};
  return {
      Sample("add", "", {any, any}),
      Sample("add_channel", "operation: ADD", {any, channel}),
      Sample("subtract", "operation: SUB", {any, {.shape = {2, 3, 1, 1}}}),
      Sample("subtract_from_channel", "operation: SUB", {channel, any}),
      Sample("multiply", "operation: MUL", {any, any}),
      Sample("multiply_channel", "operation: MUL", {any, channel}),
      Sample("multiply_last_axis", "operation: MUL", {any, {.shape = {5}}}),
      Sample("multiply_outer", "operation: MUL", {{.shape = {4, 1}}, {.shape = {4, 1, 3}}}),
      Sample("multiply_by_scalar", "operation: MUL", {any, {.shape = {}}}),
      Sample("multiply_scalar", "operation: MUL", {{.shape = {}}, any}),
      Sample("multiply_scalars", "operation: MUL", {{.shape = {}}, {.shape = {}}}),
      Sample("multiply_places", "operation: MUL", {any, {.shape = {2, 1, 4, 5}}}),
      Sample("multiply_short", "operation: MUL", {{.shape = {50, 30, 2}}, {.shape = {50, 30, 1}}}),
      Sample("divide", "operation: DIV", {any, positive}),
      Sample("divide_by_channel", "operation: DIV", {any, positive_channel}),
      Sample("power", "operation: POW", {positive, any}),
      Sample("power_channel", "operation: POW", {positive, channel}),
      Sample("max", "operation: MAX", {distinct, distinct}),
      Sample("min_repeated", "operation: MIN",
             {distinct, {.shape = {3, 1}, .low = -0.52, .high = 0.52, .distinct = true}}),
      Sample("mod", "operation: MOD",
             {{.shape = {2, 3, 4}, .low = -0.9, .high = -0.2},
              {.shape = {2, 3, 4}, .low = 1, .high = 2}}),
      Sample(
          "fmod", "operation: FMOD",
          {{.shape = {2, 3, 4}, .low = -4.8, .high = -4.2}, {.shape = {4}, .low = 1.9, .high = 2}}),
      Sample("prelu", "operation: PRELU", {kinked, channel}),
      Sample("large", "operation: MUL", {{.shape = {5, 9001}}, {.shape = {5, 9001}}}),
      Sample("large_rows", "operation: MUL", {{.shape = {40, 1201}}, {.shape = {1201}}}),
      Sample("large_channels", "operation: MUL", {{.shape = {3, 2, 20011}}, {.shape = {2, 1}}}),
      Sample("large_scalar", "operation: MUL", {{.shape = {3, 20011}}, {.shape = {1, 1}}}),
      Sample("empty_batch", "operation: MUL", {{.shape = {0, 3}}, {.shape = {3}}}),
      Sample("empty_axis", "operation: MUL", {{.shape = {2, 1}}, {.shape = {2, 0}}}),
  };
}

std::vector<LayerSample> ValueSamples() {
  const SampleInput any{.shape = {2, 3, 4, 5}};
  const SampleInput positive{.shape = {2, 3, 4, 5}, .low = 0.3, .high = 2};
  const SampleInput kinked{.shape = {2, 3, 4, 5}, .has_kink = true, .kink = 0.25};
  return {
      Sample("add_value", "value: 0.5", {any}),
      Sample("value_minus", "operation: SUB value: 1 value_first: true", {any}),
      Sample("multiply_value", "operation: MUL value: -2", {any}),
      Sample("divide_by_value", "operation: DIV value: 4", {any}),
      Sample("divide_value", "operation: DIV value: 1.5 value_first: true", {positive}),
      Sample("square", "operation: POW value: 2", {any}),
      Sample("root", "operation: POW value: 0.5", {positive}),
      Sample("value_to_power", "operation: POW value: 2 value_first: true", {any}),
      Sample("clamp_below", "operation: MAX value: 0.25", {kinked}),
      Sample("clamp_above", "operation: MIN value: 0.25", {kinked}),
      Sample("prelu_value", "operation: PRELU value: 0.25",
             {{.shape = {2, 3, 4}, .has_kink = true}}),
      Sample("mod_value", "operation: MOD value: 2", {positive}),
      Sample("value_mod", "operation: MOD value: 2.5 value_first: true",
             {{.shape = {2, 3}, .low = 1.3, .high = 2.4}}),
      Sample("value_of_empty_batch", "value: 1", {{.shape = {0, 3}}}),
  };
}

// Operations without a gradient, and steps.
std::vector<LayerSample> StepSamples() {
  const SampleInput digits{.shape = {2, 5, 4}, .low = 0, .high = 3, .integer = true};
  const SampleInput digit{.shape = {5, 1}, .low = 0, .high = 3, .integer = true};
  const SampleInput bits{.shape = {2, 3, 4}, .low = 0, .high = 1, .integer = true};
  const SampleInput whole{.shape = {2, 5, 4}, .low = -200, .high = 200, .integer = true};
  std::vector<LayerSample> samples;
  const auto add = [&](const std::string& operation, const SampleInput& a, const SampleInput& b) {
    samples.push_back(Sample(operation, "operation: " + operation, {a, b}));
    samples.back().gradient = false;
  };
  for (const char* comparison : {"EQUAL", "LESS", "LESS_OR_EQUAL", "GREATER", "GREATER_OR_EQUAL"}) {
    add(comparison, digits, digit);
  }
  for (const char* logical : {"AND", "OR", "XOR"}) add(logical, bits, bits);
  for (const char* bitwise : {"BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"}) {
    add(bitwise, whole, whole);
  }
  add("SHIFT_LEFT", whole, digit);
  add("SHIFT_RIGHT", whole, digits);
  samples.push_back(Sample("integer_divide", "operation: INTEGER_DIV value: 7",
                           {{.shape = {3, 4}, .low = 15, .high = 20}}));
  return samples;
}

std::vector<LayerSample> Samples() {
  std::vector<LayerSample> samples = SmoothSamples();
  for (const auto& more : {ValueSamples(), StepSamples()}) {
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

}  // namespace

void RegisterBinary(Registry& registry) {
  LayerType type;
  type.name = "Binary";
  type.category = "arithmetic";
  type.summary =
      "A function of two blobs, or of a blob and a number, element by element; shapes are "
      "broadcast as in NumPy.";
  type.formula = "y = f(a, b); gradients are summed over repetitions";
  type.input_docs = {
      "a: any shape",
      "b (optional): a shape that can be broadcast with that of a: aligned at the end, axes are "
      "equal, 1 or missing; without it, `value`. Comparisons, AND, OR, XOR, BITWISE and SHIFT "
      "operations give no gradient to their bottoms"};
  type.output_docs = {"y: the shape that a and b are broadcast to"};
  type.origin = "Crema";
  type.param_fields = {"binary_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Binary>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{2, 3}}, "value is missing"},
      {"binary_param { value: 1 }", {{2, 3}, {2, 3}}, "value is for one bottom"},
      {"binary_param { value_first: true }", {{2, 3}, {2, 3}}, "value_first is for one bottom"},
      {"", {{2, 3}, {2}}, "cannot broadcast 2x3 and 2 to one shape"},
      {"", {{2, 3, 4}, {4, 4}}, "there are 3 and 4"},
      {"", {{2, 0}, {2, 3}}, "there are 0 and 3"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
