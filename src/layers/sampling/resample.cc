#include "layers/sampling/resample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "layers/sampling/resample_taps.h"
#include "layers/zero_gradient.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // fewest multiplications per thread
constexpr int kLast = Sampling::kAxes - 1;

struct Taps {
  int64_t count = 0;
  int32_t* index = nullptr;  // out x count
  double* weight = nullptr;
  bool* outside = nullptr;  // by output: extrapolated
};

using Tables = std::array<Taps, Sampling::kAxes>;

void FillTaps(const Sampling& s, const SampledAxis& axis, const Taps& taps) {
  for (int64_t o = 0; o < axis.out; ++o) {
    const SampleBase base = SampleBaseOf(s, axis, o);
    taps.outside[o] = base.outside;
    for (int t = 0; t < axis.taps; ++t) {
      const SampleTap tap = SampleTapOf(s, axis, base, t);
      taps.index[o * taps.count + t] = static_cast<int32_t>(tap.index);
      taps.weight[o * taps.count + t] = tap.weight;
    }
  }
}

Taps CutTaps(ScratchCutter* cutter, const SampledAxis& axis) {
  return {.count = axis.taps,
          .index = cutter->Take<int32_t>(axis.out * axis.taps),
          .weight = cutter->Take<double>(axis.out * axis.taps),
          .outside = cutter->Take<bool>(axis.out)};
}

Tables MakeTables(const Sampling& s, ScratchCutter* cutter) {
  Tables tables;
  for (size_t a = 0; a < tables.size(); ++a) {
    tables[a] = CutTaps(cutter, s.axes[a]);
    FillTaps(s, s.axes[a], tables[a]);
  }
  return tables;
}

// A row of outputs: all along the last axis.
struct Row {
  Row(const Sampling& s, int64_t number) {
    for (int a = kLast - 1; a >= 0; --a) {
      at[a] = number % s.axes[a].out;
      number /= s.axes[a].out;
    }
    plane = number;
  }
  int64_t plane;
  int64_t at[kLast];
};

int64_t RowsPerPlane(const Sampling& s) { return s.axes[0].out * s.axes[1].out * s.axes[2].out; }
int64_t LinesPerRow(const Tables& tables) {
  return tables[0].count * tables[1].count * tables[2].count;
}

// Calls body(offset, weight) for each input line of a row of outputs.
template <typename Body>
void ForLines(const Sampling& s, const Tables& tables, const Row& row, const Body& body) {
  const auto tap = [&](size_t a, int64_t t) { return row.at[a] * tables[a].count + t; };
  for (int64_t i = 0; i < tables[0].count; ++i) {
    for (int64_t j = 0; j < tables[1].count; ++j) {
      for (int64_t k = 0; k < tables[2].count; ++k) {
        const int64_t line =
            (tables[0].index[tap(0, i)] * s.axes[1].in + tables[1].index[tap(1, j)]) *
                s.axes[2].in +
            tables[2].index[tap(2, k)];
        body(line * s.axes[kLast].in, tables[0].weight[tap(0, i)] * tables[1].weight[tap(1, j)] *
                                          tables[2].weight[tap(2, k)]);
      }
    }
  }
}

bool IsOutside(const Tables& tables, const Row& row) {
  return tables[0].outside[row.at[0]] || tables[1].outside[row.at[1]] ||
         tables[2].outside[row.at[2]];
}

// sums[o] += weight * the output element of this line alone. kTaps = 0: taps.count.
template <int kTaps, typename T>
void AddLine(const Taps& taps, int64_t width, const T* line, double weight, double* sums) {
  const int64_t count = kTaps == 0 ? taps.count : kTaps;
  for (int64_t o = 0; o < width; ++o) {
    const int32_t* columns = taps.index + o * count;
    const double* weights = taps.weight + o * count;
    double part = 0;
    for (int64_t b = 0; b < count; ++b) part += weights[b] * line[columns[b]];
    sums[o] += weight * part;
  }
}

template <int kTaps, typename T>
void ForwardRow(const Sampling& s, const Tables& tables, const Row& row, const T* plane,
                double* sums, T* y) {
  const Taps& taps = tables[kLast];
  const int64_t width = s.axes[kLast].out;
  if (IsOutside(tables, row)) {
    std::fill_n(y, width, static_cast<T>(s.extrapolation));
    return;
  }
  if (kTaps == 1 && LinesPerRow(tables) == 1) {  // copies
    ForLines(s, tables, row, [&](int64_t offset, double) {
      for (int64_t o = 0; o < width; ++o) y[o] = plane[offset + taps.index[o]];
    });
  } else {
    std::fill_n(sums, width, 0);
    ForLines(s, tables, row, [&](int64_t offset, double weight) {
      AddLine<kTaps>(taps, width, plane + offset, weight, sums);
    });
    for (int64_t o = 0; o < width; ++o) y[o] = static_cast<T>(sums[o]);
  }
  for (int64_t o = 0; s.axes[kLast].cuts && o < width; ++o) {
    if (taps.outside[o]) y[o] = static_cast<T>(s.extrapolation);
  }
}

template <int kTaps, typename T>
void BackwardRow(const Sampling& s, const Tables& tables, const Row& row, const T* dy, T* plane) {
  if (IsOutside(tables, row)) return;
  const Taps& taps = tables[kLast];
  const int64_t count = kTaps == 0 ? taps.count : kTaps;
  ForLines(s, tables, row, [&](int64_t offset, double weight) {
    T* line = plane + offset;
    for (int64_t o = 0; o < s.axes[kLast].out; ++o) {
      const int32_t* columns = taps.index + o * count;
      const double* weights = taps.weight + o * count;
      const double share = weight * dy[o];
      for (int64_t b = 0; b < count; ++b) line[columns[b]] += static_cast<T>(share * weights[b]);
    }
  });
}

// Calls body with the number of taps of the last axis as a compile-time constant; 0 for any other.
template <typename Body>
void WithTaps(const Sampling& s, Body&& body) {
  switch (s.axes[kLast].taps) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 4:
      return body.template operator()<4>();
    default:
      return body.template operator()<0>();
  }
}

const Shape* Reference(std::span<const BlobSpec> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape : nullptr;
}
const Shape* Reference(std::span<const ConstTensorView> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape() : nullptr;
}

}  // namespace

void SampledAxis::AlignCorners(double wide) {
  resampled = true;
  before = after = 0;
  num = wide == 1 || out == 1 ? 0 : static_cast<double>(length - 1);
  den = num == 0 ? 1 : wide - 1;
}

void SampledAxis::AlignAreas(double input_step, double output_step) {
  resampled = true;
  before = 0.5;
  num = input_step;
  den = output_step;
  after = -0.5;
}

int64_t Sampling::InSize() const { return axes[0].in * axes[1].in * axes[2].in * axes[3].in; }
int64_t Sampling::OutSize() const { return axes[0].out * axes[1].out * axes[2].out * axes[3].out; }

void Sampling::SetTaps() {
  if (interpolation == SamplingMethod::kNearest) return;
  const int half = interpolation == SamplingMethod::kLinear ? 1 : 2;
  for (SampledAxis& axis : axes) {
    if (axis.resampled) axis.taps = 2 * static_cast<int>(std::ceil(half / axis.narrowing));
  }
}

size_t ResampleScratch(const Sampling& s, int threads) {
  return ScratchCutter::Booked([&](ScratchCutter* cutter) {
    for (const SampledAxis& axis : s.axes) CutTaps(cutter, axis);
    for (int t = 0; t < threads; ++t) cutter->Take<double>(s.axes[kLast].out);
  });
}

template <typename T>
void ForwardResample(int threads, const Sampling& s, int64_t planes, const T* x, T* y,
                     std::span<std::byte> scratch) {
  if (planes * s.OutSize() == 0) return;
  ScratchCutter cutter(scratch);
  const Tables tables = MakeTables(s, &cutter);
  const int64_t width = s.axes[kLast].out;
  const auto room = static_cast<int64_t>(ScratchBytes<double>(width) / sizeof(double));
  double* const sums = cutter.Take<double>(room * threads);  // each thread has its own lines
  const int64_t work = width * tables[kLast].count * LinesPerRow(tables);
  WithTaps(s, [&]<int kTaps>() {
    ParallelFor(threads, planes * RowsPerPlane(s), std::max<int64_t>(1, kGrain / work),
                [&](int64_t begin, int64_t end, int worker) {
                  for (int64_t r = begin; r < end; ++r) {
                    const Row row(s, r);
                    ForwardRow<kTaps>(s, tables, row, x + row.plane * s.InSize(),
                                      sums + worker * room, y + r * width);
                  }
                });
  });
}

template <typename T>
void BackwardResample(int threads, const Sampling& s, int64_t planes, const T* dy, T* dx,
                      std::span<std::byte> scratch) {
  if (planes == 0) return;
  ScratchCutter cutter(scratch);
  const Tables tables = MakeTables(s, &cutter);
  const int64_t rows = RowsPerPlane(s), width = s.axes[kLast].out;
  const int64_t work =
      std::max<int64_t>(1, s.OutSize() * tables[kLast].count * LinesPerRow(tables));
  WithTaps(s, [&]<int kTaps>() {
    ParallelFor(threads, planes, std::max<int64_t>(1, kGrain / work),
                [&](int64_t begin, int64_t end, int) {
                  std::fill(dx + begin * s.InSize(), dx + end * s.InSize(), T(0));
                  for (int64_t r = begin * rows; r < end * rows; ++r) {
                    const Row row(s, r);
                    BackwardRow<kTaps>(s, tables, row, dy + r * width, dx + row.plane * s.InSize());
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

void ResampleLayer::CheckPlanes(const Shape& input) const {
  if (input.axes() != 4) {
    FailInputs(*this, StrCat("the input needs 4 axes (batch, channels, height, width), but it is ",
                             ToString(input)));
  }
  if (input[2] == 0 || input[3] == 0) {
    FailInputs(*this,
               StrCat("planes without pixels cannot be resized; the input is ", ToString(input)));
  }
}

LayerInfo ResampleLayer::Infer(const InferContext& context) const {
  const ResamplePlan plan = Plan(context.inputs[0].shape, Reference(context.inputs));
  LayerInfo info;
  info.outputs = {{plan.output, context.inputs[0].dtype}};
  info.reach = plan.mixes_samples ? Reach::kAll : Reach::kSample;
  info.moves_only = plan.sampling.interpolation == SamplingMethod::kNearest;
  return info;
}

void ResampleLayer::Forward(const ForwardArgs& args) const {
  const Shape& shape = args.inputs[0].shape();
  if (shape.count() == 0) return;
  const Sampling s = Plan(shape, Reference(args.inputs)).sampling;
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    ForwardResample(args.context.threads(), s, shape.count() / s.InSize(), args.inputs[0].data<T>(),
                    args.outputs[0].data<T>(), args.scratch);
  });
}

void ResampleLayer::Backward(const BackwardArgs& args) const {
  ZeroGradients(args.input_grads.subspan(1));
  if (args.input_grads[0].empty()) return;
  const Shape& shape = args.input_grads[0].shape();
  if (shape.count() == 0) return;
  const Sampling s = Plan(shape, Reference(args.inputs)).sampling;
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    BackwardResample(args.context.threads(), s, shape.count() / s.InSize(),
                     args.output_grads[0].data<T>(), args.input_grads[0].data<T>(), args.scratch);
  });
}

size_t ResampleLayer::ForwardScratch(const InferContext& context, const LayerInfo&,
                                     int threads) const {
  const Shape& shape = context.inputs[0].shape;
  return ResampleScratch(Plan(shape, Reference(context.inputs)).sampling, threads);
}

size_t ResampleLayer::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                      int threads) const {
  return ForwardScratch(context, info, threads);
}

}  // namespace crema
