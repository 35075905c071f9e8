// Interp and Resize on the GPU; see resample.cc.
#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/sampling/resample.h"
#include "layers/sampling/resample_taps.h"
#include "layers/zero_gradient.cuh"

namespace crema {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // limit of scratch, unless one plane needs more

template <typename T>
void Sample(const CudaQueue& queue, const Sampling& sampling, int64_t planes, const T* x, T* y) {
  const Sampling s = sampling;
  const int taps = TapCount(s.interpolation);
  ForElements(queue, "Resample", planes * s.OutSize(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const SampleBase row = SampleBaseOf(s, s.h, i / s.w.out % s.h.out);
    const SampleBase column = SampleBaseOf(s, s.w, i % s.w.out);
    const T* plane = x + i / (s.w.out * s.h.out) * s.h.in * s.w.in;
    float sum = 0;
    for (int a = 0; a < taps; ++a) {
      const SampleTap line = SampleTapOf(s.h, taps, row, a);
      float part = 0;
      for (int b = 0; b < taps; ++b) {
        const SampleTap tap = SampleTapOf(s.w, taps, column, b);
        part += static_cast<float>(tap.weight) * ToFloat(plane[line.index * s.w.in + tap.index]);
      }
      sum += static_cast<float>(line.weight) * part;
    }
    y[i] = FromFloat<T>(sum);
  });
}

// Returns the output coordinate of a position of the input, the inverse of SamplePlace.
CREMA_HOST_DEVICE double OutputAt(const SampledAxis& axis, bool align_corners, double place) {
  if (align_corners) {
    return place * static_cast<double>(axis.out - 1) / static_cast<double>(axis.length - 1);
  }
  return (place + 0.5) * static_cast<double>(axis.out) / static_cast<double>(axis.length) - 0.5;
}

// Returns the sum of weight * value(output) over the outputs along an axis that read an input
// element.
template <typename Value>
CREMA_HOST_DEVICE float SumForElement(const Sampling& s, const SampledAxis& axis, int taps,
                                      int64_t element, const Value& value) {
  const int64_t source = element - axis.start;
  if (source < 0 || source >= axis.length) return 0;
  // Includes a few extra outputs with weight 0, so that rounding cannot miss any. The border
  // elements also stand for everything beyond the border.
  const double reach = taps == 4 ? 2 : 1;
  const auto place = static_cast<double>(source);
  int64_t begin = 0, end = axis.out;
  if (source > 0) {
    const double first = OutputAt(axis, s.align_corners, place - reach);
    begin = first <= 2 ? 0 : static_cast<int64_t>(first) - 1;
  }
  if (source < axis.length - 1) {
    const double last = OutputAt(axis, s.align_corners, place + reach);
    end = last + 2 >= static_cast<double>(end) ? end : static_cast<int64_t>(last) + 2;
  }
  float sum = 0;
  for (int64_t o = begin; o < end; ++o) {
    const SampleBase base = SampleBaseOf(s, axis, o);
    double weight = 0;
    for (int t = 0; t < taps; ++t) {
      const SampleTap tap = SampleTapOf(axis, taps, base, t);
      if (tap.index == element) weight += tap.weight;
    }
    if (weight != 0) sum += static_cast<float>(weight) * value(o);
  }
  return sum;
}

// Gathers along rows into `rows` (planes x h.out x w.in), then along columns.
template <typename T>
void Gather(const CudaQueue& queue, const Sampling& sampling, int64_t planes, const T* dy, T* dx,
            float* rows) {
  const Sampling s = sampling;
  const int taps = TapCount(s.interpolation);
  ForElements(queue, "ResampleRows", planes * s.h.out * s.w.in, [=] CREMA_HOST_DEVICE(int64_t i) {
    const T* row = dy + i / s.w.in * s.w.out;
    rows[i] = SumForElement(s, s.w, taps, i % s.w.in, [&](int64_t o) { return ToFloat(row[o]); });
  });
  ForElements(queue, "ResampleColumns", planes * s.InSize(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t width = s.w.in;
    const float* plane = rows + i / (s.h.in * width) * s.h.out * width;
    const int64_t column = i % width;
    dx[i] = FromFloat<T>(SumForElement(s, s.h, taps, i / width % s.h.in,
                                       [&](int64_t o) { return plane[o * width + column]; }));
  });
}

Sampling SamplingOf(const Layer& layer, const Shape& input, const Shape* reference) {
  return static_cast<const ResampleLayer&>(layer).Plan(input, reference);
}

template <typename View>
const Shape* Reference(std::span<const View> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape() : nullptr;
}

int64_t RowBytes(const Sampling& s) {
  return s.h.out * s.w.in * static_cast<int64_t>(sizeof(float));
}
// Returns the number of planes that backward processes at a time.
int64_t PlanesAtOnce(const Sampling& s, int64_t planes) {
  const int64_t fit = kMostBytes / std::max<int64_t>(1, RowBytes(s));
  return std::min(planes, std::max<int64_t>(1, fit));
}

struct GpuResample {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    Sample(args.queue, SamplingOf(layer, x, Reference(args.inputs)), x.count(0, 2), args.x(),
           args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    ZeroCudaGradients(args.queue, args.input_grads.subspan(1));
    if (args.dx() == nullptr) return;
    const Shape& dx = args.input_grads[0].shape();
    const Sampling s = SamplingOf(layer, dx, Reference(args.inputs));
    const int64_t planes = dx.count(0, 2), step = PlanesAtOnce(s, planes);
    auto* rows = reinterpret_cast<float*>(args.scratch.data());
    for (int64_t p = 0; p < planes; p += step) {
      Gather(args.queue, s, std::min(step, planes - p), args.dy() + p * s.OutSize(),
             args.dx() + p * s.InSize(), rows);
    }
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    const Sampling s =
        SamplingOf(query.layer, inputs[0].shape, inputs.size() > 1 ? &inputs[1].shape : nullptr);
    return static_cast<size_t>(PlanesAtOnce(s, inputs[0].shape.count(0, 2)) * RowBytes(s));
  }
};

}  // namespace

void RegisterResampleCuda(Registry& registry) {
  for (const char* type : {"Interp", "Resize"}) {
    registry.AddImplementation(type, CudaImplementation<GpuResample>());
  }
}

}  // namespace crema
