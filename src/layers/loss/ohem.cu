// Losses of single regions and the choice of the hardest ones on the GPU; see ohem.cc. One thread
// processes a region.
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/ohem.h"

namespace crema {
namespace {

template <typename T, typename Regions>
void WriteCosts(const CudaQueue& queue, const Regions& given, GpuDivisor divisor, double* parts,
                T* loss, T* costs) {
  const Regions regions = given;
  const int64_t count = regions.size.count();
  WriteLoss(
      queue, count,
      [=] CREMA_HOST_DEVICE(int64_t n) { return static_cast<float>(regions.Cost(n)); }, divisor,
      parts, loss);
  if (costs == nullptr) return;
  ForElements(queue, "RegionCosts", count,
              [=] CREMA_HOST_DEVICE(int64_t n) { costs[n] = ElementOf<T>(regions.Cost(n)); });
}

// The gradient of the cost of a region.
template <typename T>
struct Slope {
  const T* dloss;
  const T* dcosts;
  GpuDivisor divisor;
  CREMA_HOST_DEVICE double At(int64_t region) const {
    const double all = dloss == nullptr ? 0 : ValueOf(dloss[0]) / divisor.Value();
    return all + (dcosts == nullptr ? 0 : ValueOf(dcosts[region]));
  }
};

struct GpuSmoothRegions {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const SmoothRegions<T> regions(args.inputs);
    ScratchCutter cutter(args.scratch);
    WriteCosts(args.queue, regions, DivisorFor(layer, regions.size),
               cutter.Take<double>(kMostSumParts), args.y(), args.y(1));
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const SmoothRegions<T> regions(args.inputs);
    const Slope<T> slope{args.dy(), args.dy(1), DivisorFor(layer, regions.size)};
    for (size_t input = 0; input < 2; ++input) {
      T* const dx = args.dx(input);
      const double sign = input == 0 ? 1 : -1;
      if (dx == nullptr) continue;
      ForElements(
          args.queue, "SmoothRegionsBackward", regions.size.count(),
          [=] CREMA_HOST_DEVICE(int64_t n) { regions.WriteGradient(n, sign * slope.At(n), dx); });
    }
  }

  static size_t Scratch(const OpDesc& query) { return LossScratch(query); }

 private:
  static GpuDivisor DivisorFor(const Layer& layer, const RegionSize& size) {
    return {.fixed = static_cast<float>(OhemDivisor(LossNormalizer(layer), size))};
  }
};

struct GpuSoftmaxRegions {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const SoftmaxRegions<T> regions(ScoreRegions(layer, args.inputs[0].shape()), layer,
                                    args.inputs);
    ScratchCutter cutter(args.scratch);
    double* const parts = cutter.Take<double>(kMostSumParts);
    const GpuDivisor divisor = DivisorFor(args.queue, layer, regions, parts, cutter.Take<float>(1));
    WriteCosts(args.queue, regions, divisor, parts, args.y(), args.y(2));
    T* const p = args.y(1);
    if (p == nullptr) return;
    ForElements(args.queue, "RegionProbabilities", regions.size.count(),
                [=] CREMA_HOST_DEVICE(int64_t n) { regions.WriteProbabilities(n, p); });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const SoftmaxRegions<T> regions(ScoreRegions(layer, args.inputs[0].shape()), layer,
                                    args.inputs);
    ScratchCutter cutter(args.scratch);
    double* const parts = cutter.Take<double>(kMostSumParts);
    const Slope<T> slope{args.dy(), args.dy(2),
                         DivisorFor(args.queue, layer, regions, parts, cutter.Take<float>(1))};
    const T* const dp = args.dy(1);
    T* const dx = args.dx();
    ForElements(
        args.queue, "SoftmaxRegionsBackward", regions.size.count(),
        [=] CREMA_HOST_DEVICE(int64_t n) { regions.WriteGradient(n, slope.At(n), dp, dx); });
  }

  static size_t Scratch(const OpDesc& query) { return LossScratch(query); }

  // nvcc takes no device lambda in a private function.
  template <typename T>
  static GpuDivisor DivisorFor(const CudaQueue& queue, const Layer& layer,
                               const SoftmaxRegions<T>& regions, double* parts, float* result) {
    const LossPositions positions{
        .outer = regions.size.outer, .all = regions.size.count(), .counted = regions.size.count()};
    const auto labels = regions.labels;
    return DivisorOf(
        queue, LossNormalizer(layer), positions, labels.ignores,
        [=] CREMA_HOST_DEVICE(int64_t n) { return labels(n) == kIgnoredLabel ? 0.0f : 1.0f; },
        parts, result);
  }
};

struct GpuRegionChoice {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const RegionChoice<T> choice(layer, args.inputs);
    const RegionSize boxes = RegionsOf(args.inputs[3].shape());
    const auto ignored =
        static_cast<double>(layer.param().box_annotator_ohem_param().ignore_label());
    const T *labels = args.x(2), *weights = args.x(3);
    T *to_labels = args.y(), *to_weights = args.y(1);
    ForElements(args.queue, "ChooseRegions", choice.size.count(), [=] CREMA_HOST_DEVICE(int64_t n) {
      const bool kept = choice.Chooses(n);
      to_labels[n] = kept ? labels[n] : ElementOf<T>(ignored);
      for (int64_t c = 0; c < boxes.values; ++c) {
        const int64_t i = boxes.First(n) + c * boxes.inner;
        to_weights[i] = kept ? weights[i] : ElementOf<T>(0);
      }
    });
  }
};

}  // namespace

void RegisterOhemCuda(Registry& registry) {
  registry.AddImplementation("SmoothL1LossOHEM", CudaImplementation<GpuSmoothRegions>());
  registry.AddImplementation("SoftmaxWithLossOHEM", CudaImplementation<GpuSoftmaxRegions>());
  registry.AddImplementation("BoxAnnotatorOHEM", CudaImplementation<GpuRegionChoice>());
}

}  // namespace crema
