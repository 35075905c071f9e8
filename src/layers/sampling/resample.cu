// Interp and Resize on the GPU; see resample.cc.
#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/sampling/resample.h"
#include "layers/sampling/resample_taps.h"
#include "layers/zero_gradient.cuh"

namespace crema {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // limit of scratch, unless one plane needs more

// An output element: its place on each axis.
struct Bases {
  CREMA_HOST_DEVICE Bases(const Sampling& s, int64_t i) {
    for (int a = Sampling::kAxes - 1; a >= 0; --a) {
      base[a] = SampleBaseOf(s, s.axes[a], i % s.axes[a].out);
      outside = outside || base[a].outside;
      i /= s.axes[a].out;
    }
    plane = i;
  }
  SampleBase base[Sampling::kAxes];
  bool outside = false;
  int64_t plane;
};

// Returns the weighted sum of elements along axes kAxis.. from `line` on.
template <int kAxis, typename T>
CREMA_HOST_DEVICE float SumOfTaps(const Sampling& s, const Bases& at, int64_t line, const T* x) {
  if constexpr (kAxis == Sampling::kAxes) {
    return ToFloat(x[line]);
  } else {
    const SampledAxis& axis = s.axes[kAxis];
    float sum = 0;
    for (int t = 0; t < axis.taps; ++t) {
      const SampleTap tap = SampleTapOf(s, axis, at.base[kAxis], t);
      const float part = SumOfTaps<kAxis + 1>(s, at, line * axis.in + tap.index, x);
      // Nothing is added to an element that is copied.
      sum = axis.taps == 1 ? part : sum + static_cast<float>(tap.weight) * part;
    }
    return sum;
  }
}

template <typename T>
void Sample(const CudaQueue& queue, const Sampling& sampling, int64_t planes, const T* x, T* y) {
  const Sampling s = sampling;
  ForElements(queue, "Resample", planes * s.OutSize(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const Bases at(s, i);
    y[i] = FromFloat<T>(at.outside ? s.extrapolation : SumOfTaps<0>(s, at, at.plane, x));
  });
}

// Returns the output coordinate of a position of the input, the inverse of SamplePlace.
CREMA_HOST_DEVICE double OutputAt(const SampledAxis& axis, double place) {
  return (place - axis.after) * axis.den / axis.num - axis.before;
}

// Returns the sum of weight * value(output) over the outputs along an axis that read an input
// element.
template <typename Value>
CREMA_HOST_DEVICE float SumForElement(const Sampling& s, const SampledAxis& axis, int64_t element,
                                      const Value& value) {
  if (!axis.resampled) return value(element);
  const int64_t source = element - axis.start;
  if (source < 0 || source >= axis.length) return 0;
  // Includes a few extra outputs with weight 0, so that rounding cannot miss any. The border
  // elements also stand for everything beyond the border.
  const double reach = axis.taps == 1 ? 1 : axis.taps / 2;
  const auto place = static_cast<double>(source);
  int64_t begin = 0, end = axis.out;
  if (source > 0 && axis.num > 0) {
    const double first = OutputAt(axis, place - reach);
    begin = first <= 2 ? 0 : static_cast<int64_t>(first) - 1;
  }
  if (source < axis.length - 1 && axis.num > 0) {
    const double last = OutputAt(axis, place + reach);
    end = last + 2 >= static_cast<double>(end) ? end : static_cast<int64_t>(last) + 2;
  }
  float sum = 0;
  for (int64_t o = begin; o < end; ++o) {
    const SampleBase base = SampleBaseOf(s, axis, o);
    double weight = 0;
    for (int t = 0; t < axis.taps; ++t) {
      const SampleTap tap = SampleTapOf(s, axis, base, t);
      if (tap.index == element) weight += tap.weight;
    }
    if (weight != 0) sum += static_cast<float>(weight) * value(o);
  }
  return sum;
}

// One axis of a blob of outer x out x inner elements. Its gradient has outer x in x inner.
template <typename From, typename To>
void GatherAlong(const CudaQueue& queue, const Sampling& sampling, int a, int64_t outer,
                 int64_t inner_count, const From* dy, To* dx) {
  const Sampling s = sampling;
  const int64_t inner = inner_count;
  ForElements(
      queue, "ResampleGradient", outer * s.axes[a].in * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
        const SampledAxis& axis = s.axes[a];
        const From* from = dy + i / (axis.in * inner) * axis.out * inner + i % inner;
        dx[i] = FromFloat<To>(SumForElement(s, axis, i / inner % axis.in,
                                            [&](int64_t o) { return ToFloat(from[o * inner]); }));
      });
}

// The passes of the gradient: along one axis after the other, from the last one on.
class Passes {
 public:
  explicit Passes(const Sampling& sampling) : sampling_(sampling) {
    for (int a = Sampling::kAxes - 1; a >= 0; --a) {
      if (sampling.axes[a].resampled) along_[count_++] = a;
    }
    if (count_ == 0) along_[count_++] = Sampling::kAxes - 1;  // a copy
  }

  // Returns the elements of a plane in the buffer 0 or 1 between two passes.
  int64_t BufferSize(int buffer) const {
    int64_t most = 0;
    for (int k = buffer; k + 1 < count_; k += 2) most = std::max(most, SizeAfter(k));
    return most;
  }
  int64_t BufferBytes() const {
    return (BufferSize(0) + BufferSize(1)) * static_cast<int64_t>(sizeof(float));
  }

  template <typename T>
  void Run(const CudaQueue& queue, int64_t planes, const T* dy, T* dx, float* buffer) const {
    float* const buffers[2] = {buffer, buffer + planes * BufferSize(0)};
    for (int k = 0; k < count_; ++k) {
      float *const from = buffers[(k + 1) % 2], *const to = buffers[k % 2];
      const bool first = k == 0, last = k + 1 == count_;
      const int a = along_[k];
      const int64_t outer = Outer(planes, a), inner = Inner(a);
      if (first && last) {
        GatherAlong(queue, sampling_, a, outer, inner, dy, dx);
      } else if (first) {
        GatherAlong(queue, sampling_, a, outer, inner, dy, to);
      } else if (last) {
        GatherAlong(queue, sampling_, a, outer, inner, from, dx);
      } else {
        GatherAlong(queue, sampling_, a, outer, inner, from, to);
      }
    }
  }

 private:
  int64_t Outer(int64_t planes, int axis) const {
    for (int a = 0; a < axis; ++a) planes *= sampling_.axes[a].out;
    return planes;
  }
  int64_t Inner(int axis) const {
    int64_t product = 1;
    for (int a = axis + 1; a < Sampling::kAxes; ++a) product *= sampling_.axes[a].in;
    return product;
  }
  int64_t SizeAfter(int pass) const {
    const int a = along_[pass];
    return Outer(1, a) * sampling_.axes[a].in * Inner(a);
  }

  const Sampling& sampling_;
  int along_[Sampling::kAxes]{};
  int count_ = 0;
};

Sampling SamplingOf(const Layer& layer, const Shape& input, const Shape* reference) {
  return static_cast<const ResampleLayer&>(layer).Plan(input, reference).sampling;
}

template <typename View>
const Shape* Reference(std::span<const View> inputs) {
  return inputs.size() > 1 ? &inputs[1].shape() : nullptr;
}

// Returns the number of planes that backward processes at a time.
int64_t PlanesAtOnce(const Passes& passes, int64_t planes) {
  const int64_t fit = kMostBytes / std::max<int64_t>(1, passes.BufferBytes());
  return std::min(planes, std::max<int64_t>(1, fit));
}

struct GpuResample {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    if (x.count() == 0) return;
    const Sampling s = SamplingOf(layer, x, Reference(args.inputs));
    Sample(args.queue, s, x.count() / s.InSize(), args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    ZeroCudaGradients(args.queue, args.input_grads.subspan(1));
    if (args.dx() == nullptr) return;
    const Shape& dx = args.input_grads[0].shape();
    if (dx.count() == 0) return;
    const Sampling s = SamplingOf(layer, dx, Reference(args.inputs));
    const Passes passes(s);
    const int64_t planes = dx.count() / s.InSize(), step = PlanesAtOnce(passes, planes);
    auto* buffer = reinterpret_cast<float*>(args.scratch.data());
    for (int64_t p = 0; p < planes; p += step) {
      passes.Run(args.queue, std::min(step, planes - p), args.dy() + p * s.OutSize(),
                 args.dx() + p * s.InSize(), buffer);
    }
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    const Shape& x = inputs[0].shape;
    if (x.count() == 0) return 0;
    const Sampling s = SamplingOf(query.layer, x, inputs.size() > 1 ? &inputs[1].shape : nullptr);
    const Passes passes(s);
    return static_cast<size_t>(PlanesAtOnce(passes, x.count() / s.InSize()) * passes.BufferBytes());
  }
};

}  // namespace

void RegisterResampleCuda(Registry& registry) {
  for (const char* type : {"Interp", "Resize"}) {
    registry.AddImplementation(type, CudaImplementation<GpuResample>());
  }
}

}  // namespace crema
