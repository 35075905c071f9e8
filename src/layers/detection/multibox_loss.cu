// MultiBoxLoss on the GPU; see multibox_loss.cc. Computes in double precision, so that matching and
// mining agree with the CPU. Invalid objects, which are errors on the CPU, are skipped and make the
// loss NaN, because a kernel cannot throw.
#include "crema.pb.h"
#include "layers/detection/multibox_match.cuh"
#include "layers/detection/multibox_mine.cuh"

namespace crema {
namespace {

template <typename T>
MultiBoxBatch<T> BatchOf(const Layer& layer, const GpuForward<T>& args) {
  const MultiBoxLossParameter& p = layer.param().multibox_loss_param();
  const MultiBoxRule rule = MakeMultiBoxRule(layer);
  const BoxSizes boxes = SizesOf(layer, args.inputs, rule.classes, rule.box_classes == 1);
  MultiBoxBatch<T> batch{
      .rule = rule,
      .sizes = SizesOf(rule, boxes, args.inputs[3].shape()),
      .lists = {},
      .from = PredictionsOf<T>(boxes, rule.code, !p.encode_variance_in_target(), args.inputs),
      .objects = args.x(3),
      .use_difficult = p.use_difficult_gt() && !p.ignore_difficult_gt()};
  ScratchCutter cutter(args.scratch);
  batch.lists = CutLists(batch.sizes, &cutter);
  return batch;
}

template <typename T>
void SumImages(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  const int64_t boxes = batch.sizes.boxes.box_classes * priors;
  ForTeams(
      queue, "SumImage", batch.sizes.boxes.images,
      [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
        const auto matched = [&](int64_t i) { return batch.Match(n, i / priors, i % priors) >= 0; };
        const int64_t matches = team.Sum(boxes, [&](int64_t i) -> int64_t { return matched(i); });
        const double loc = team.Sum(batch.rule.want_loc ? boxes : 0, [&](int64_t i) {
          return matched(i) ? batch.LocLoss(n, i / priors, i % priors, NoSlope{}) : 0.0;
        });
        const double conf = team.Sum(batch.rule.want_conf ? priors : 0, [&](int64_t p) {
          if (!batch.Counts(n, p)) return 0.0;
          return batch.ConfLoss(n, p, batch.ClassOf(n, p), false, NoSlope{});
        });
        team.For(1, [&](int64_t) { batch.lists.sums[n] = MultiBoxSums{loc, conf, matches}; });
      });
}

template <typename T>
void WriteLoss(const CudaQueue& queue, const MultiBoxBatch<T>& given, double loc_weight,
               const MultiBoxDivisor& by, T* loss, T* reciprocal) {
  const MultiBoxBatch<T> batch = given;
  const MultiBoxDivisor divisor = by;
  ForElements(queue, "MultiBoxLoss", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    MultiBoxSums sums;
    for (int64_t n = 0; n < batch.sizes.boxes.images; ++n) {
      const MultiBoxSums& image = batch.lists.sums[n];
      sums.loc += image.loc;
      sums.conf += image.conf;
      sums.matches += image.matches;
    }
    const double z = divisor.Of(sums.matches);
    const double value = (loc_weight * sums.loc + sums.conf) / z;
    const bool wrong = *batch.lists.wrong_objects > 0;
    *loss =
        FromFloat<T>(wrong ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value));
    if (reciprocal != nullptr) *reciprocal = FromFloat<T>(static_cast<float>(1 / z));
  });
}

// One thread per prior and box class.
template <typename T>
void SaveLocSlopes(const CudaQueue& queue, const MultiBoxBatch<T>& given, T* slopes) {
  const MultiBoxBatch<T> batch = given;
  const int64_t classes = batch.sizes.boxes.box_classes;
  const int64_t priors = batch.sizes.boxes.priors;
  ForElements(queue, "LocSlopes", batch.sizes.matchings() * priors,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t n = i / classes / priors, p = i / classes % priors, c = i % classes;
                T* own = slopes + 4 * i;
                for (int64_t k = 0; k < 4; ++k) own[k] = FromFloat<T>(0);
                if (!batch.rule.want_loc || batch.Match(n, c, p) < 0) return;
                batch.LocLoss(n, c, p, [&](size_t k, double slope) {
                  own[k] = FromFloat<T>(static_cast<float>(slope));
                });
              });
}

template <typename T>
void SaveConfSlopes(const CudaQueue& queue, const MultiBoxBatch<T>& given, T* slopes) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  ForElements(queue, "ConfSlopes", batch.sizes.boxes.images * priors,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t n = i / priors, p = i % priors;
                T* own = slopes + i * batch.rule.classes;
                if (!batch.rule.want_conf || !batch.Counts(n, p)) {
                  for (int64_t c = 0; c < batch.rule.classes; ++c) own[c] = FromFloat<T>(0);
                  return;
                }
                batch.ConfLoss(n, p, batch.ClassOf(n, p), true, [&](int64_t c, double slope) {
                  own[c] = FromFloat<T>(static_cast<float>(slope));
                });
              });
}

template <typename T>
void Scale(const CudaQueue& queue, int64_t count, const T* dy, const T* reciprocal, double weight,
           const T* slopes, T* dx) {
  ForElements(queue, "MultiBoxLossBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const double factor =
        static_cast<double>(ToFloat(*dy)) * static_cast<double>(ToFloat(*reciprocal)) * weight;
    dx[i] = FromFloat<T>(static_cast<float>(factor) * ToFloat(slopes[i]));
  });
}

struct GpuMultiBoxLoss {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const MultiBoxBatch<T> batch = BatchOf(layer, args);
    ListObjects(args.queue, batch);
    MatchObjects(args.queue, batch);
    MatchBoxesLeft(args.queue, batch);
    Mine(args.queue, batch);
    SumImages(args.queue, batch);
    WriteLoss(args.queue, batch, double{layer.param().multibox_loss_param().loc_weight()},
              DivisorOf(layer.param(), batch.sizes.boxes), args.y(), args.template Saved<T>(2));
    if (T* slopes = args.template Saved<T>(0)) SaveLocSlopes(args.queue, batch, slopes);
    if (T* slopes = args.template Saved<T>(1)) SaveConfSlopes(args.queue, batch, slopes);
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const auto loc_weight = double{layer.param().multibox_loss_param().loc_weight()};
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (args.dx(i) == nullptr) continue;
      Scale(args.queue, args.saved[i].count(), args.dy(), args.template Saved<T>(2),
            i == 0 ? loc_weight : 1, args.template Saved<T>(i), args.dx(i));
    }
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const MultiBoxRule rule = MakeMultiBoxRule(query.layer);
    const BoxSizes boxes =
        CheckPredictions(query.layer, query.context.inputs, rule.classes, rule.box_classes == 1);
    const MultiBoxSizes sizes = SizesOf(rule, boxes, query.context.inputs[3].shape);
    return ScratchCutter::Booked([&](ScratchCutter* cutter) { CutLists(sizes, cutter); });
  }
};

}  // namespace

void RegisterMultiBoxLossCuda(Registry& registry) {
  registry.AddImplementation("MultiBoxLoss", CudaImplementation<GpuMultiBoxLoss>());
}

}  // namespace crema
