#include "math/depthwise_conv.h"

#include <algorithm>
#include <numeric>

#include "core/parallel_for.h"
#include "math/cpu/depthwise_planes.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // multiply-adds worth a thread

int64_t ForwardGrain(const DepthwiseShape& s) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.Run() * s.Taps()));
}

// The scratch of one worker of the backward pass.
struct BackwardMemory {
  BackwardMemory(const DepthwiseShape& s, ScratchCutter* cutter)
      : sums(cutter->Take<double>(s.multiplier * (s.Taps() + 1))),
        x(cutter->Take<float>(s.Phases())),
        dx(cutter->Take<float>(s.Phases())),
        dy(cutter->Take<float>(s.Run())),
        masked(cutter->Take<float>(s.OutPlane())) {}
  static size_t Bytes(const DepthwiseShape& s) {
    return ScratchBytes<double>(s.multiplier * (s.Taps() + 1)) +
           2 * ScratchBytes<float>(s.Phases()) + ScratchBytes<float>(s.Run()) +
           ScratchBytes<float>(s.OutPlane());
  }

  double* sums;  // gradients of the filters of one channel, then of their biases
  float* x;
  float* dx;
  float* dy;
  float* masked;
};

// Adds the contributions of one image and one input channel.
void BackwardPlane(const DepthwiseShape& s, int64_t n, int64_t channel, FusedRelu relu,
                   const ConvGrads& g, const BackwardMemory& memory) {
  const int64_t in = (n * s.channels + channel) * s.InPlane();
  if (g.dweight != nullptr) SplitPhases(s, g.x + in, memory.x);
  if (g.dx != nullptr) std::fill_n(memory.dx, s.Phases(), 0.0F);
  for (int64_t m = 0; m < s.multiplier; ++m) {
    const int64_t filter = channel * s.multiplier + m;
    const int64_t out = (n * s.channels * s.multiplier + filter) * s.OutPlane();
    const float* dy = g.dy + out;
    if (relu.on) {
      MaskByOutput(s.OutPlane(), relu.slope, g.y + out, dy, memory.masked);
      dy = memory.masked;
    }
    WidenRows(s, dy, memory.dy);
    if (g.dweight != nullptr) {
      AddTapProducts(s, memory.dy, memory.x, memory.sums + m * s.Taps());
    }
    if (g.dbias != nullptr) {
      memory.sums[s.multiplier * s.Taps() + m] += std::accumulate(dy, dy + s.OutPlane(), 0.0);
    }
    if (g.dx != nullptr) SpreadTaps(s, memory.dy, g.weight + filter * s.Taps(), memory.dx);
  }
  if (g.dx != nullptr) JoinPhases(s, memory.dx, g.dx + in);
}

}  // namespace

DepthwiseShape::DepthwiseShape(const ConvWindow& window, int64_t in_channels, int64_t out_channels)
    : channels(in_channels), multiplier(out_channels / in_channels) {
  const auto axis = [&](size_t i) {
    Axis a{window.in[i],     window.out[i], window.kernel[i],
           window.stride[i], window.pad[i], window.dilation[i]};
    a.phase = a.out + (a.kernel - 1) * a.dilation / a.stride;
    return a;
  };
  if (window.axes == 2) h = axis(0);
  w = axis(static_cast<size_t>(window.axes - 1));
}

int64_t DepthwiseShape::Offset(int64_t tap) const {
  const int64_t y = tap / w.kernel * h.dilation;
  const int64_t x = tap % w.kernel * w.dilation;
  const int64_t plane = y % h.stride * w.stride + x % w.stride;
  return (plane * h.phase + y / h.stride) * w.phase + x / w.stride;
}

size_t DepthwiseForwardScratch(const DepthwiseShape& s, int64_t batch, int threads) {
  const int workers = ParallelWorkers(threads, batch * s.channels * s.multiplier, ForwardGrain(s));
  return ScratchBytes<int64_t>(2 * DepthwiseVectorCount(s) + s.Taps()) +
         static_cast<size_t>(workers) * ScratchBytes<float>(s.Phases() + kDepthwiseSlack) +
         kScratchSlack;
}

void DepthwiseForward(const DepthwiseShape& s, int64_t batch, int threads, const float* x,
                      const float* weight, const float* bias, FusedRelu relu, float* y,
                      std::span<std::byte> scratch) {
  const int64_t outputs = s.channels * s.multiplier;
  const int64_t piece =
      static_cast<int64_t>(ScratchBytes<float>(s.Phases() + kDepthwiseSlack) / sizeof(float));
  const int workers = ParallelWorkers(threads, batch * outputs, ForwardGrain(s));
  ScratchCutter cutter(scratch);
  const DepthwiseVectors vectors =
      MakeDepthwiseVectors(s, cutter.Take<int64_t>(2 * DepthwiseVectorCount(s) + s.Taps()));
  float* memory = cutter.Take<float>(piece * workers);
  ParallelFor(threads, batch * outputs, ForwardGrain(s),
              [&](int64_t begin, int64_t end, int worker) {
                float* phases = memory + worker * piece;
                std::fill_n(phases, piece, 0.0F);
                for (int64_t plane = begin; plane < end; ++plane) {
                  const int64_t filter = plane % outputs;
                  // Filters of one channel follow each other and share its phases.
                  if (plane == begin || filter % s.multiplier == 0) {
                    SplitPhases(s, x + plane / s.multiplier * s.InPlane(), phases);
                  }
                  ConvolvePlane(s, vectors,
                                {.phases = phases,
                                 .weight = weight + filter * s.Taps(),
                                 .bias = bias == nullptr ? 0.0F : bias[filter],
                                 .relu = relu,
                                 .y = y + plane * s.OutPlane(),
                                 .room = (end - plane) * s.OutPlane()});
                }
              });
}

size_t DepthwiseBackwardScratch(const DepthwiseShape& s, int threads) {
  return static_cast<size_t>(ParallelWorkers(threads, s.channels, 1)) * BackwardMemory::Bytes(s) +
         kScratchSlack;
}

void DepthwiseBackward(const DepthwiseShape& s, int64_t batch, int threads, FusedRelu relu,
                       const ConvGrads& grads, std::span<std::byte> scratch) {
  ParallelFor(threads, s.channels, 1, [&](int64_t begin, int64_t end, int worker) {
    ScratchCutter cutter(scratch);
    for (int before = 0; before < worker; ++before) BackwardMemory(s, &cutter);
    const BackwardMemory memory(s, &cutter);
    std::fill_n(memory.x, s.Phases(), 0.0F);
    for (int64_t c = begin; c < end; ++c) {
      std::fill_n(memory.sums, s.multiplier * (s.Taps() + 1), 0.0);
      for (int64_t n = 0; n < batch; ++n) BackwardPlane(s, n, c, relu, grads, memory);
      const int64_t filters = s.multiplier * s.Taps();
      for (int64_t i = 0; i < filters && grads.dweight != nullptr; ++i) {
        grads.dweight[c * filters + i] += static_cast<float>(memory.sums[i]);
      }
      for (int64_t m = 0; m < s.multiplier && grads.dbias != nullptr; ++m) {
        grads.dbias[c * s.multiplier + m] += static_cast<float>(memory.sums[filters + m]);
      }
    }
  });
}

}  // namespace crema
