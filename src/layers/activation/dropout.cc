// Dropout. TRAIN: y = x * m / (1 - ratio), where m is 1 with probability 1 - ratio and otherwise 0;
// TEST: y = x. With scale_train: false the factor is applied in TEST instead: y = x * m in TRAIN, y
// = x * (1 - ratio) in TEST.
// The mask is a function of (seed, layer, step, element). It is saved for backward as bytes, since
// reading one is cheaper than drawing it again. May run in place.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/activation/dropout_rule.h"
#include "layers/int8_ranges.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// elements per tile; a multiple of 4, the words of one random block
constexpr int64_t kTile = 1024;
constexpr int64_t kGrain = 8;  // minimum tiles per thread

template <typename T>
inline void MaskLoop(const T* x, const uint8_t* mask, T* y, int64_t count, Compute<T> scale) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * (static_cast<Compute<T>>(mask[i]) * scale);
}
CREMA_MULTIVERSION void ApplyMask(const float* x, const uint8_t* mask, float* y, int64_t count,
                                  float scale) {
  MaskLoop(x, mask, y, count, scale);
}
CREMA_MULTIVERSION void ApplyMask(const BFloat16* x, const uint8_t* mask, BFloat16* y,
                                  int64_t count, float scale) {
  MaskLoop(x, mask, y, count, scale);
}
void ApplyMask(const double* x, const uint8_t* mask, double* y, int64_t count, double scale) {
  MaskLoop(x, mask, y, count, scale);
}

void DrawMask(const RandomStream& stream, uint32_t threshold, int64_t first, int64_t count,
              uint8_t* mask) {
  for (int64_t i = 0; i < count; i += 4) {
    const std::array<uint32_t, 4> words = stream.Block(static_cast<uint64_t>(first + i) / 4);
    for (int64_t k = 0; k < std::min<int64_t>(4, count - i); ++k) {
      mask[i + k] = words[static_cast<size_t>(k)] >= threshold;
    }
  }
}

// Calls body(first, count) for tiles of [0, count).
template <typename Body>
void ForEachTile(int threads, int64_t count, Body&& body) {
  ParallelFor(threads, (count + kTile - 1) / kTile, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin * kTile; at < std::min(end * kTile, count); at += kTile) {
      body(at, std::min(kTile, count - at));
    }
  });
}

class Dropout final : public Layer {
 public:
  explicit Dropout(const LayerParameter& param) : Layer(param), rule_(param.dropout_param()) {
    if (!(rule_.ratio >= 0 && rule_.ratio < 1)) {
      const bool percent = rule_.ratio > 1 && rule_.ratio < 100;
      FailField(*this, "dropout_param.dropout_ratio",
                StrCat("dropout_ratio is ", rule_.ratio, ", expected 0 or more and less than 1",
                       percent ? StrCat("; ", rule_.ratio, " % is ", rule_.ratio / 100) : ""));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    // draws depend on the element's position
    const bool draws = context.phase == TRAIN && rule_.ratio > 0;
    info.reach = draws ? Reach::kAll : Reach::kElement;
    info.moves_only = (context.phase == TRAIN) != rule_.scales_in_training || rule_.ratio == 0;
    info.in_place = true;
    info.any_format = context.phase != TRAIN;
    if (context.phase == TRAIN) info.saved = {{context.inputs[0].shape, DType::kU8}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchStored(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      if (args.phase != TRAIN) return Scale(args.context, args.inputs[0].count(), x, y);
      const RandomStream stream = rule_.Stream(args);
      uint8_t* const saved = args.saved[0].empty() ? nullptr : args.saved[0].data<uint8_t>();
      ForEachTile(args.context.threads(), args.inputs[0].count(), [&](int64_t at, int64_t count) {
        std::array<uint8_t, kTile> unsaved;
        uint8_t* const mask = saved != nullptr ? saved + at : unsaved.data();
        DrawMask(stream, rule_.Threshold(), at, count, mask);
        ApplyMask(x + at, mask, y + at, count, static_cast<Compute<T>>(rule_.TrainScale()));
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchStored(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      const int64_t total = args.output_grads[0].count();
      if (args.phase != TRAIN) return Scale(args.context, total, dy, dx);
      const uint8_t* mask = args.saved[0].data<uint8_t>();
      ForEachTile(args.context.threads(), total, [&](int64_t at, int64_t count) {
        ApplyMask(dy + at, mask + at, dx + at, count, static_cast<Compute<T>>(rule_.TrainScale()));
      });
    });
  }

 private:
  // Computes the TEST pass, and its gradient.
  template <typename T>
  void Scale(const ExecContext& context, int64_t count, const T* x, T* y) const {
    if (rule_.scales_in_training) {
      if (x != y) std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
      return;
    }
    const Compute<T> factor = Compute<T>{1} - Compute<T>{rule_.ratio};
    ForEachTile(context.threads(), count, [&](int64_t at, int64_t length) {
      for (int64_t i = at; i < at + length; ++i) y[i] = factor * x[i];
    });
  }

  const DropoutRule rule_;
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  return {
      {.name = "half", .prototxt = "", .inputs = {input}},
      {.name = "large",
       .prototxt = "dropout_param { dropout_ratio: 0.1 }",
       .inputs = {{.shape = {5, 4001}}}},
      {.name = "keep_all", .prototxt = "dropout_param { dropout_ratio: 0 }", .inputs = {input}},
      {.name = "own_seed", .prototxt = "dropout_param { random_seed: 7 }", .inputs = {input}},
      {.name = "scale_in_test_train",
       .prototxt = "dropout_param { scale_train: false }",
       .inputs = {input}},
      {.name = "scale_in_test",
       .prototxt = "dropout_param { scale_train: false }",
       .inputs = {input},
       .phase = TEST},
      {.name = "test", .prototxt = "", .inputs = {input}, .phase = TEST},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterDropout(Registry& registry) {
  LayerType type;
  type.name = "Dropout";
  type.traits = {.fits_16_bits = true, .computes_on_bytes = true};
  type.category = "activation";
  type.summary = "Zeroes random elements in training; passes everything on in TEST.";
  type.formula =
      "TRAIN: y = x * m / (1 - dropout_ratio), m ~ Bernoulli(1 - dropout_ratio); TEST: y = x";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x; may share the memory of x"};
  type.differences = {
      "Random draws are addressed by seed, layer, pass and element, so they do not depend on the "
      "number of threads; they are not Caffe's Mersenne Twister's."};
  type.param_fields = {"dropout_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Dropout>(p); };
  type.implementations = {Int8Copy()};
  type.samples = Samples();
  const std::string expect = "expected 0 or more and less than 1";
  type.bad_samples = {
      {"dropout_param { dropout_ratio: 1 }", {{2}}, expect},
      {"dropout_param { dropout_ratio: -0.5 }", {{2}}, expect},
      {"dropout_param { dropout_ratio: nan }", {{2}}, expect},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
