#include "layers/input/mixing.h"

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/batch_mix.h"

namespace crema {
namespace {

const AugmentParameter& ParamOf(const LayerParameter& param) {
  return param.transform_param().augment_param();
}

[[noreturn]] void FailMixing(const Layer& layer, const std::string& reason) {
  const std::string step = ParamOf(layer.param()).mixup() > 0 ? "mixup" : "cutmix";
  FailField(layer, "transform_param.augment_param." + step, StrCat(step, " ", reason));
}

}  // namespace

bool Mixes(const LayerParameter& param) {
  return ParamOf(param).mixup() > 0 || ParamOf(param).cutmix() > 0;
}

void CheckMixing(const Layer& layer, uint32_t batch_size) {
  if (!Mixes(layer.param())) return;
  if (batch_size < 2) {
    FailMixing(layer, "mixes samples of one batch, but batch_size is 1: make it 2 or more");
  }
}

void RefuseMixing(const Layer& layer) {
  if (Mixes(layer.param())) FailMixing(layer, "is for Data and ImageData only: remove it");
}

Shape LabelShape(const Layer& layer, const InferContext& context, int64_t batch) {
  if (context.phase != TRAIN || !Mixes(layer.param())) return Shape{batch};
  if (context.output_count < 2) {
    FailMixing(layer, "mixes labels with the images, but there is no second top: add it");
  }
  return Shape{batch, ParamOf(layer.param()).classes()};
}

std::vector<bool> ExternalUnlessMixed(const Layer& layer, const InferContext& context) {
  const bool mixed = context.phase == TRAIN && Mixes(layer.param());
  return std::vector<bool>(mixed ? 0 : context.output_count, true);
}

void AddMixing(const LayerParameter& param, Phase phase, BatchFiller::Options* filler,
               PrefetchOptions* reader) {
  if (phase != TRAIN || !Mixes(param)) return;
  filler->classes = ParamOf(param).classes();
  reader->copy = [mix = BatchMix({.mixup = static_cast<double>(ParamOf(param).mixup()),
                                  .cutmix = static_cast<double>(ParamOf(param).cutmix()),
                                  .seed = filler->seed,
                                  .layer_id = filler->layer_id})](
                     std::span<const ConstTensorView> from, uint64_t position,
                     std::span<const TensorView> to) { mix.Copy(from, position, to); };
}

}  // namespace crema
