#include "layers/sampling/resample.h"

#include <algorithm>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "layers/sampling/resample_taps.h"
#include "layers/zero_gradient.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // fewest multiplications per thread

struct Taps {
  int count = 0;
  int32_t* index = nullptr;  // out x count
  double* weight = nullptr;
};

void FillTaps(const Sampling& s, const SampledAxis& axis, const Taps& taps) {
  for (int64_t o = 0; o < axis.out; ++o) {
    const SampleBase base = SampleBaseOf(s, axis, o);
    for (int t = 0; t < taps.count; ++t) {
      const SampleTap tap = SampleTapOf(axis, taps.count, base, t);
      taps.index[o * taps.count + t] = static_cast<int32_t>(tap.index);
      taps.weight[o * taps.count + t] = tap.weight;
    }
  }
}

struct Tables {
  Taps h;
  Taps w;
};

Tables MakeTables(const Sampling& s, std::span<std::byte> scratch) {
  ScratchCutter cutter(scratch);
  const int count = TapCount(s.interpolation);
  Tables tables;
  const auto make = [&](const SampledAxis& axis) {
    Taps taps{.count = count,
              .index = cutter.Take<int32_t>(axis.out * count),
              .weight = cutter.Take<double>(axis.out * count)};
    FillTaps(s, axis, taps);
    return taps;
  };
  tables.h = make(s.h);
  tables.w = make(s.w);
  return tables;
}

template <int kTaps, typename T>
void ForwardOnGpu(const Tables& tables, int64_t row, int64_t width, int64_t in_width,
                  const T* plane, T* y) {
  const int32_t* rows = tables.h.index + row * kTaps;
  const double* row_weights = tables.h.weight + row * kTaps;
  for (int64_t o = 0; o < width; ++o) {
    const int32_t* columns = tables.w.index + o * kTaps;
    const double* weights = tables.w.weight + o * kTaps;
    double sum = 0;
    for (int a = 0; a < kTaps; ++a) {
      const T* line = plane + rows[a] * in_width;
      double part = 0;
      for (int b = 0; b < kTaps; ++b) part += weights[b] * line[columns[b]];
      sum += row_weights[a] * part;
    }
    y[o] = static_cast<T>(sum);
  }
}

template <int kTaps, typename T>
void BackwardOnGpu(const Tables& tables, int64_t row, int64_t width, int64_t in_width, const T* dy,
                   T* plane) {
  const int32_t* rows = tables.h.index + row * kTaps;
  const double* row_weights = tables.h.weight + row * kTaps;
  for (int64_t o = 0; o < width; ++o) {
    const int32_t* columns = tables.w.index + o * kTaps;
    const double* weights = tables.w.weight + o * kTaps;
    for (int a = 0; a < kTaps; ++a) {
      T* line = plane + rows[a] * in_width;
      const double share = row_weights[a] * dy[o];
      for (int b = 0; b < kTaps; ++b) line[columns[b]] += static_cast<T>(share * weights[b]);
    }
  }
}

// Calls body with the number of taps as a compile-time constant.
template <typename Body>
void WithTaps(Interpolation interpolation, Body&& body) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return body.template operator()<1>();
    case Interpolation::kLinear:
      return body.template operator()<2>();
    case Interpolation::kCubic:
      return body.template operator()<4>();
  }
}

const Shape* Reference(std::span<const BlobSpec> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape : nullptr;
}
const Shape* Reference(std::span<const ConstTensorView> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape() : nullptr;
}

}  // namespace

size_t ResampleScratch(const Sampling& s) {
  const int count = TapCount(s.interpolation);
  const auto bytes = [&](const SampledAxis& axis) {
    return ScratchBytes<int32_t>(axis.out * count) + ScratchBytes<double>(axis.out * count);
  };
  return bytes(s.h) + bytes(s.w) + kScratchSlack;
}

template <typename T>
void ForwardResample(int threads, const Sampling& s, int64_t planes, const T* x, T* y,
                     std::span<std::byte> scratch) {
  if (planes * s.OutSize() == 0) return;
  const Tables tables = MakeTables(s, scratch);
  const int64_t work = s.w.out * tables.h.count * tables.w.count;
  WithTaps(s.interpolation, [&]<int kTaps>() {
    ParallelFor(threads, planes * s.h.out, std::max<int64_t>(1, kGrain / work),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t row = begin; row < end; ++row) {
                    ForwardOnGpu<kTaps>(tables, row % s.h.out, s.w.out, s.w.in,
                                        x + row / s.h.out * s.InSize(), y + row * s.w.out);
                  }
                });
  });
}

template <typename T>
void BackwardResample(int threads, const Sampling& s, int64_t planes, const T* dy, T* dx,
                      std::span<std::byte> scratch) {
  if (planes == 0) return;
  const Tables tables = MakeTables(s, scratch);
  const int64_t work = std::max<int64_t>(1, s.OutSize() * tables.h.count * tables.w.count);
  WithTaps(s.interpolation, [&]<int kTaps>() {
    ParallelFor(threads, planes, std::max<int64_t>(1, kGrain / work),
                [&](int64_t begin, int64_t end, int) {
                  std::fill(dx + begin * s.InSize(), dx + end * s.InSize(), T(0));
                  for (int64_t row = begin * s.h.out; row < end * s.h.out; ++row) {
                    BackwardOnGpu<kTaps>(tables, row % s.h.out, s.w.out, s.w.in, dy + row * s.w.out,
                                         dx + row / s.h.out * s.InSize());
                  }
                });
  });
}

template void ForwardResample(int, const Sampling&, int64_t, const float*, float*,
                              std::span<std::byte>);
template void ForwardResample(int, const Sampling&, int64_t, const double*, double*,
                              std::span<std::byte>);
template void BackwardResample(int, const Sampling&, int64_t, const float*, float*,
                               std::span<std::byte>);
template void BackwardResample(int, const Sampling&, int64_t, const double*, double*,
                               std::span<std::byte>);

LayerInfo ResampleLayer::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  if (input.axes() != 4) {
    FailInputs(*this, StrCat("the input needs 4 axes (batch, channels, height, width), but it is ",
                             ToString(input)));
  }
  if (input[2] == 0 || input[3] == 0) {
    FailInputs(*this,
               StrCat("planes without pixels cannot be resized; the input is ", ToString(input)));
  }
  const Sampling sampling = Plan(input, Reference(context.inputs));
  LayerInfo info;
  info.outputs = {
      {Shape{input[0], input[1], sampling.h.out, sampling.w.out}, context.inputs[0].dtype}};
  info.reach = Reach::kSample;
  info.moves_only = sampling.interpolation == Interpolation::kNearest;
  return info;
}

void ResampleLayer::Forward(const ForwardArgs& args) const {
  const Shape& shape = args.inputs[0].shape();
  const Sampling sampling = Plan(shape, Reference(args.inputs));
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    ForwardResample(args.context.threads(), sampling, shape.count(0, 2), args.inputs[0].data<T>(),
                    args.outputs[0].data<T>(), args.scratch);
  });
}

void ResampleLayer::Backward(const BackwardArgs& args) const {
  ZeroGradients(args.input_grads.subspan(1));
  if (args.input_grads[0].empty()) return;
  const Shape& shape = args.input_grads[0].shape();
  const Sampling sampling = Plan(shape, Reference(args.inputs));
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    BackwardResample(args.context.threads(), sampling, shape.count(0, 2),
                     args.output_grads[0].data<T>(), args.input_grads[0].data<T>(), args.scratch);
  });
}

size_t ResampleLayer::ForwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return ResampleScratch(Plan(context.inputs[0].shape, Reference(context.inputs)));
}

size_t ResampleLayer::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                      int threads) const {
  return ForwardScratch(context, info, threads);
}

}  // namespace crema
