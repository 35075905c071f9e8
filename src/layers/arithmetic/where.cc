// Where: y = a where the condition is not 0, else b; the three are broadcast to one shape as in
// NumPy. da = dy where the condition is not 0, else 0, and db the reverse, summed over repetitions.
// The condition gets no gradient.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/broadcasting.h"
#include "math/broadcast_tiles.h"

namespace crema {
namespace {

template <typename T>
CREMA_MULTIVERSION void SelectTile(int64_t count, const T* condition, const T* a, const T* b,
                                   T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = condition[i] != 0 ? a[i] : b[i];
}

// Computes tiles of the gradient of a (input 1) or b (input 2). Thread safety: one thread.
template <typename T>
class GradientTiles {
 public:
  using Number = Compute<T>;

  GradientTiles(const BroadcastMap& map, const BackwardArgs& args, size_t input)
      : of_a_(input == 1),
        condition_(map, 0, args.inputs[0].data<T>()),
        dy_(map, 3, args.output_grads[0].data<T>()),
        zero_(map, Number{0}) {}

  void Fill(int64_t at, int64_t count, Number* dx) {
    const Number* dy = dy_.Read(at, count);
    const Number* zero = zero_.Read(at, count);
    SelectTile(count, condition_.Read(at, count), of_a_ ? dy : zero, of_a_ ? zero : dy, dx);
  }
  const Number* operator()(int64_t at, int64_t count) {
    Fill(at, count, buffer_);
    return buffer_;
  }

 private:
  const bool of_a_;
  TileReader<T> condition_, dy_, zero_;
  alignas(64) Number buffer_[kTileSize];
};

class WhereLayer final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    SetBroadcastFacts(*this, context.inputs, &info);
    info.moves_only = true;
    info.gradient_forbidden = {true, false, false};
    info.backward_reads_input = {true, false, false};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const BroadcastMap map = MapOfInputs(args.outputs[0].shape(), args.inputs);
    DispatchStored(args.outputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), map.count, kTileGrain,
                  [&](int64_t begin, int64_t end, int) {
                    TileReader<T> condition(map, 0, args.inputs[0].data<T>());
                    TileReader<T> a(map, 1, args.inputs[1].data<T>());
                    TileReader<T> b(map, 2, args.inputs[2].data<T>());
                    TileWriter<T> writer;
                    ForEachTile(map, begin, end, [&](int64_t at, int64_t count) {
                      writer.Write(y + at, count, [&](Compute<T>* to) {
                        SelectTile(count, condition.Read(at, count), a.Read(at, count),
                                   b.Read(at, count), to);
                      });
                    });
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchStored(args.output_grads[0].dtype(), [&]<typename T>(T) {
      for (const size_t input : {size_t{1}, size_t{2}}) {
        if (!args.input_grads[input].empty()) Differentiate<T>(args, input);
      }
    });
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const override {
    return GradientSumScratch(info.outputs[0].shape, context.inputs);
  }

 private:
  template <typename T>
  static void Differentiate(const BackwardArgs& args, size_t input) {
    const BroadcastMap map = MapOfInputs(args.output_grads[0].shape(), args.inputs);
    WriteGradient<T>(args, map, input, kTileGrain,
                     [&] { return GradientTiles<T>(map, args, input); });
  }
};

std::vector<LayerSample> Samples() {
  const auto condition = [](std::vector<int64_t> shape) {
    return SampleInput{.shape = std::move(shape), .low = 0, .high = 1, .integer = true};
  };
  const SampleInput any{.shape = {2, 3, 4, 5}};
  return {
      {.name = "equal", .prototxt = "", .inputs = {condition({2, 3, 4, 5}), any, any}},
      {.name = "mask_scalar", .prototxt = "", .inputs = {condition({4, 5}), any, {.shape = {}}}},
      {.name = "mask_of_samples",
       .prototxt = "",
       .inputs = {condition({2, 1, 1, 5}), {.shape = {1}}, any}},
      {.name = "all_repeated",
       .prototxt = "",
       .inputs = {condition({2, 1, 1}), {.shape = {3, 1}}, {.shape = {4}}}},
      {.name = "rows",
       .prototxt = "",
       .inputs = {condition({2, 3}), {.shape = {2, 3}}, {.shape = {2, 3}}}},
      {.name = "large",
       .prototxt = "",
       .inputs = {condition({40, 1201}), {.shape = {1201}}, {.shape = {40, 1}}}},
      {.name = "scalars", .prototxt = "", .inputs = {condition({}), {.shape = {}}, {.shape = {}}}},
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {condition({0, 3}), {.shape = {3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterWhere(Registry& registry) {
  LayerType type;
  type.name = "Where";
  type.traits.fits_16_bits = true;
  type.category = "arithmetic";
  type.summary = "Chooses between two blobs, element by element; shapes are broadcast as in NumPy.";
  type.formula = "y = a where c != 0, b elsewhere; gradients are summed over repetitions";
  type.input_docs = {"c: the condition; receives no gradient",
                     "a: a shape that can be broadcast with that of c: aligned at the end, axes "
                     "are equal, 1 or missing",
                     "b: the same"};
  type.output_docs = {"y: the shape that c, a and b are broadcast to"};
  type.origin = "Crema";
  type.inputs = {3, 3};
  type.make = [](const LayerParameter& p) { return std::make_unique<const WhereLayer>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{2, 3}, {2, 3}, {2}}, "cannot broadcast 2x3 and 2 to one shape"},
      {"", {{2, 1}, {2, 3}, {2, 4}}, "there are 3 and 4"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
