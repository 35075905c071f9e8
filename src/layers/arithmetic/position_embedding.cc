// PositionEmbedding: y[o, p, m, f] = x[o, p, m, f] + E[p, f], where p runs along `axis` and f along
// the last one. dx = dy; dE[p, f] = sum of dy over o and m. Backward reads neither x nor y, so the
// layer may run in place.
//   LEARNED: E is learned, max_length x F.
//   SINUSOIDAL: E[p, 2i] = sin(p / 10000^(2i / F)), E[p, 2i + 1] = cos of the same.
#include "layers/arithmetic/position_embedding.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/scratch.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // minimum elements per thread
constexpr int64_t kTile = 256;       // features added at a time

template <typename T>
CREMA_MULTIVERSION void AddRow(const T* x, const T* row, T* y, int64_t count) {
  for (int64_t f = 0; f < count; ++f) y[f] = x[f] + row[f];
}

template <typename T>
void AddTable(int threads, const PositionSize& e, const T* x, const T* table, T* y) {
  ParallelFor(threads, e.outer * e.positions * e.middle,
              std::max<int64_t>(1, kGrain / std::max<int64_t>(1, e.features)),
              [&](int64_t begin, int64_t end, int) {
                for (int64_t row = begin; row < end; ++row) {
                  const int64_t p = row / e.middle % e.positions;
                  AddRow(x + row * e.features, table + p * e.features, y + row * e.features,
                         e.features);
                }
              });
}

// sums[0..count) += dy of position p, features first..first + count. Requires count <= kTile.
template <typename T>
CREMA_MULTIVERSION void AddPosition(const PositionSize& e, int64_t p, int64_t first, int64_t count,
                                    const T* dy, T* sums) {
  std::array<double, kTile> totals{};
  for (int64_t o = 0; o < e.outer; ++o) {
    const T* rows = dy + (o * e.positions + p) * e.middle * e.features + first;
    for (int64_t m = 0; m < e.middle; ++m) {
      for (int64_t f = 0; f < count; ++f) {
        totals[static_cast<size_t>(f)] += static_cast<double>(rows[m * e.features + f]);
      }
    }
  }
  for (int64_t f = 0; f < count; ++f) sums[f] += static_cast<T>(totals[static_cast<size_t>(f)]);
}

template <typename T>
void FillSinusoids(const PositionSize& e, T* table) {
  for (int64_t f = 0; f < e.features; ++f) {
    const double frequency = SinusoidFrequency(f, e.features);
    for (int64_t p = 0; p < e.positions; ++p) {
      table[p * e.features + f] = static_cast<T>(Sinusoid(p, f, frequency));
    }
  }
}

class PositionEmbedding final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const PositionSize e = PositionSizeOf(*this, context.inputs[0].shape);
    const int64_t most = Position().max_length();
    if (most > 0 && e.positions > most) {
      FailInputs(*this, StrCat("the input ", ToString(context.inputs[0].shape), " has ",
                               e.positions, " positions, more than max_length, ", most));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = ReachFromAxis(context.inputs[0].shape.CanonicalAxis(Position().axis()));
    info.in_place = true;
    if (Learns()) {
      info.parameters = {{"embedding", Shape{most > 0 ? most : e.positions, e.features}, Filler()}};
    }
    return info;
  }

  // Holds the table of sinusoids.
  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    if (Learns()) return 0;
    const PositionSize e = PositionSizeOf(*this, context.inputs[0].shape);
    const int64_t count = e.positions * e.features;
    return kScratchSlack + (context.dtype == DType::kF32 ? ScratchBytes<float>(count)
                                                         : ScratchBytes<double>(count));
  }

  void Forward(const ForwardArgs& args) const override {
    const PositionSize e = PositionSizeOf(*this, args.inputs[0].shape());
    if (args.inputs[0].count() == 0) return;
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* table = nullptr;
      if (Learns()) {
        table = args.parameters[0].data<T>();
      } else {
        T* sinusoids = ScratchCutter(args.scratch).Take<T>(e.positions * e.features);
        FillSinusoids(e, sinusoids);
        table = sinusoids;
      }
      AddTable(args.context.threads(), e, args.inputs[0].data<T>(), table,
               args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView& dy = args.output_grads[0];
    if (Learns() && !args.parameter_grads[0].empty()) {
      const PositionSize e = PositionSizeOf(*this, dy.shape());
      DispatchFloat(dy.dtype(), [&]<typename T>(T) {
        T* sums = args.parameter_grads[0].data<T>();
        const int64_t each = std::max<int64_t>(1, e.outer * e.middle * e.features);
        ParallelFor(args.context.threads(), e.positions, std::max<int64_t>(1, kGrain / each),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t p = begin; p < end; ++p) {
                        for (int64_t f = 0; f < e.features; f += kTile) {
                          AddPosition(e, p, f, std::min(kTile, e.features - f), dy.data<T>(),
                                      sums + p * e.features + f);
                        }
                      }
                    });
      });
    }
    // Last, since dx may share memory with dy.
    const TensorView& dx = args.input_grads[0];
    if (!dx.empty() && dx.raw() != dy.raw()) std::memcpy(dx.raw(), dy.raw(), dy.bytes());
  }

 private:
  const PositionEmbeddingParameter& Position() const { return param().position_embedding_param(); }
  bool Learns() const { return Position().kind() == PositionEmbeddingParameter::LEARNED; }

  FillerParameter Filler() const {
    if (Position().has_weight_filler()) return Position().weight_filler();
    FillerParameter narrow;
    narrow.set_type("gaussian");
    narrow.set_std(0.02F);
    return narrow;
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "position_embedding_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  return {
      sample("learned", "max_length: 8", {2, 5, 4}),
      sample("as_long_as_the_bottom", "", {2, 5, 4}),
      sample("time_first", "axis: 0 weight_filler { type: \"uniform\" }", {5, 3, 4}),
      sample("middle", "axis: -3", {2, 3, 4, 5}),
      sample("sinusoidal", "kind: SINUSOIDAL", {2, 5, 6}),
      sample("sinusoidal_odd", "kind: SINUSOIDAL axis: 0 max_length: 4", {4, 2, 5}),
      sample("large", "", {3, 17, 601}),
      sample("large_sinusoidal", "kind: SINUSOIDAL", {3, 17, 601}),
      sample("empty_batch", "max_length: 3", {0, 3, 2}),
      sample("empty_sinusoidal", "kind: SINUSOIDAL", {2, 0, 2}),
  };
}

}  // namespace

void RegisterPositionEmbedding(Registry& registry) {
  LayerType type;
  type.name = "PositionEmbedding";
  type.traits = {.fits_16_bits = true};
  type.category = "arithmetic";
  type.summary = "Adds a vector for each position of a sequence: learned, or sines and cosines.";
  type.formula =
      "y[n, p, f] = x[n, p, f] + E[p, f]; SINUSOIDAL: E[p, 2i] = sin(p / 10000^(2i / F)), "
      "E[p, 2i + 1] = cos(p / 10000^(2i / F))";
  type.input_docs = {
      "x: N x P x F: positions along axis, features along the last axis; other axes "
      "may lie between and before"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"embedding: max_length x F; with kind LEARNED only"};
  type.origin = "Crema";
  type.param_fields = {"position_embedding_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const PositionEmbedding>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{2, 3}}, "axis is 1, the last one of 2x3"},
      {"position_embedding_param { axis: 3 }", {{2, 3, 4}}, "axis 3 is outside"},
      {"position_embedding_param { max_length: 2 }",
       {{2, 3, 4}},
       "has 3 positions, more than max_length, 2"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
