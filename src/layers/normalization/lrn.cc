// LRN: y = x * scale^-beta, where scale is
//   ACROSS_CHANNELS  k + alpha / n * sum of x^2 over n channels around this one
//   WITHIN_CHANNEL   1 + alpha / n^2 * sum of x^2 over n x n pixels around this one (k is not
//                    used); with d spatial axes n^d
// and values beyond the edges are 0. Backward reads x and the saved scale:
// dx = dy * scale^-beta - 2 alpha beta / n (or n^2) * x * sum over the window of dy * y / scale.
#include "math/lrn.h"

#include <memory>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/blocked_implementation.h"
#include "layers/normalization/lrn_implementations.h"
#include "math/blocked_lrn.h"
#include "math/scratch.h"

namespace crema {
namespace {

class LRN final : public Layer {
 public:
  explicit LRN(const LayerParameter& param)
      : Layer(param),
        within_(param.lrn_param().norm_region() == LRNParameter::WITHIN_CHANNEL),
        param_({.size = param.lrn_param().local_size(),
                .alpha = param.lrn_param().alpha(),
                .beta = param.lrn_param().beta(),
                .k = param.lrn_param().k()}) {
    if (param_.size % 2 == 0) {
      FailField(*this, "lrn_param.local_size",
                StrCat("local_size must be odd, but it is ", param_.size));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& input = context.inputs[0].shape;
    const int least = within_ ? 3 : 2;
    if (input.axes() < least) {
      FailInputs(*this, StrCat("LRN needs inputs of ", least, " axes or more (batch, channels",
                               within_ ? ", and what is within a channel" : "",
                               "), but the input is ", ToString(input)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = param_.size == 1 ? Reach::kElement : Reach::kSample;
    info.saved = {context.inputs[0]};  // scale
    info.backward_reads_input = {true};
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const Shape& shape = context.inputs[0].shape;
    // A scale that is not saved takes one sample per worker.
    const size_t scale =
        ScratchBytes<double>(shape.count(1)) * static_cast<size_t>(Workers(threads, shape));
    return scale + BackwardScratch(context, LayerInfo{}, threads);
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo&,
                         int threads) const override {
    const Shape& shape = context.inputs[0].shape;
    return ScratchBytes<double>(WorkerScratch(shape) * Workers(threads, shape)) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const LrnShape image = Image(shape);
    const bool save = !args.saved.empty() && !args.saved[0].empty();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const int threads = args.context.threads();
      ScratchCutter cutter(args.scratch);
      double* scratch = cutter.Take<double>(WorkerScratch(shape) * Workers(threads, shape));
      T* unsaved = save ? nullptr : cutter.Take<T>(shape.count(1) * Workers(threads, shape));
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(threads, shape[0], 1, [&](int64_t begin, int64_t end, int worker) {
        double* own = scratch + worker * WorkerScratch(shape);
        for (int64_t n = begin; n < end; ++n) {
          const int64_t at = n * shape.count(1);
          T* scale = save ? args.saved[0].data<T>() + at : unsaved + worker * shape.count(1);
          (within_ ? LrnWithin<T> : LrnAcross<T>)(image, param_, x + at, scale, y + at, own);
        }
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (args.input_grads[0].empty()) return;
    const Shape& shape = args.inputs[0].shape();
    const LrnShape image = Image(shape);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const int threads = args.context.threads();
      double* scratch =
          ScratchCutter(args.scratch).Take<double>(WorkerScratch(shape) * Workers(threads, shape));
      const T* x = args.inputs[0].data<T>();
      const T* scale = args.saved[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(threads, shape[0], 1, [&](int64_t begin, int64_t end, int worker) {
        double* own = scratch + worker * WorkerScratch(shape);
        for (int64_t n = begin; n < end; ++n) {
          const int64_t at = n * shape.count(1);
          (within_ ? LrnWithinBackward<T> : LrnAcrossBackward<T>)(image, param_, x + at, scale + at,
                                                                  dy + at, dx + at, own);
        }
      });
    });
  }

  // For the implementation on blocked blobs.
  bool within() const { return within_; }
  const LrnParam& rule() const { return param_; }

 private:
  // Returns the sizes of one sample. Refers to the dimensions in `shape`.
  static LrnShape Image(const Shape& shape) {
    if (shape.axes() == 4) return {shape[1], shape[2], shape[3]};
    return {shape[1], 1, shape.count(2), shape.dims().subspan(2)};
  }
  static int Workers(int threads, const Shape& shape) {
    return ParallelWorkers(threads, shape[0], 1);
  }
  int64_t WorkerScratch(const Shape& shape) const {
    return within_ ? LrnWithinScratch(Image(shape)) : LrnAcrossScratch(Image(shape));
  }

  const bool within_;
  const LrnParam param_;
};

// Implementation "blocked": across channels, on blocked blobs of whole blocks.
Support SupportsBlocks(const OpDesc& query) {
  const auto& lrn = static_cast<const LRN&>(query.layer);
  if (lrn.within()) return Support::No("is for ACROSS_CHANNELS");
  if (lrn.rule().size > kMostBlockedLrn) {
    return Support::No(StrCat("is for a local_size of up to ", kMostBlockedLrn));
  }
  return SupportsWholeBlocks(query);
}

LrnShape ImageOf(const Shape& shape) { return {shape[1], shape[2], shape[3]}; }

size_t BlockedScratch(const OpDesc& query) {
  const int64_t channels = query.context.inputs[0].shape[1];
  return ScratchBytes<float>(BlockedLrnScratch(channels) * query.threads) + kScratchSlack;
}

float* BlockedScratch(const Shape& shape, int threads, std::span<std::byte> scratch) {
  return ScratchCutter(scratch).Take<float>(BlockedLrnScratch(shape[1]) * threads);
}

template <typename T>
void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const int threads = args.context.threads();
  BlockedLrn(threads, shape[0], ImageOf(shape), static_cast<const LRN&>(layer).rule(),
             args.inputs[0].data<T>(), args.outputs[0].data<T>(),
             BlockedScratch(shape, threads, args.scratch));
}

template <typename T>
void BackwardBlocked(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const Shape& shape = args.inputs[0].shape();
  const int threads = args.context.threads();
  BlockedLrnBackward(threads, shape[0], ImageOf(shape), static_cast<const LRN&>(layer).rule(),
                     args.inputs[0].data<T>(), args.output_grads[0].data<T>(),
                     args.input_grads[0].data<T>(), BlockedScratch(shape, threads, args.scratch));
}

template <typename T>
ImplementationPtr BlockedImplementation() {
  const auto info = [](const OpDesc& query) {
    LayerInfo saving_nothing = query.info;
    saving_nothing.saved.clear();
    return saving_nothing;
  };
  return MakeBlockedImplementation({.supports = SupportsBlocks,
                                    .forward = ForwardBlocked<T>,
                                    .backward = BackwardBlocked<T>,
                                    .forward_scratch = BlockedScratch,
                                    .backward_scratch = BlockedScratch,
                                    .info = info});
}

}  // namespace

void RegisterLRN(Registry& registry) {
  LayerType type;
  type.name = "LRN";
  type.traits = {.fits_16_bits = true};
  type.category = "normalization";
  type.summary = "Local response normalisation over neighbouring channels or pixels.";
  type.formula = "y = x * (k + alpha / n * sum of x^2 over the neighbourhood)^-beta";
  type.input_docs = {
      "x: N x C x spatial axes; WITHIN_CHANNEL needs one or more, ACROSS_CHANNELS none"};
  type.output_docs = {"y: the shape of x"};
  type.differences = {
      "Any number of spatial axes; Caffe takes two.",
      "`engine` changes nothing: WITHIN_CHANNEL is Caffe's own, not cuDNN's divisive one."};
  type.param_fields = {"lrn_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const LRN>(p); };
  const SampleInput input{.shape = {2, 7, 3, 4}};
  const std::string within = "norm_region: WITHIN_CHANNEL";
#ifdef CREMA_HAVE_ONEDNN
  type.implementations.push_back(OneDnnLrnImplementation(BlockedImplementation<float>()));
#endif
  type.implementations.push_back(BlockedImplementation<float>());
  type.implementations.push_back(StoringBFloat16(BlockedImplementation<BFloat16>()));
#ifdef CREMA_HAVE_ONEDNN
  type.implementations.push_back(OneDnnLrnTrainingImplementation(BlockedImplementation<float>()));
#endif
  type.samples = {
      {.name = "across", .prototxt = "", .inputs = {input}},
      {.name = "across_alexnet",
       .prototxt = "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 k: 2 }",
       .inputs = {input}},
      {.name = "across_three",
       .prototxt = "lrn_param { local_size: 3 beta: 0.5 }",
       .inputs = {{.shape = {1, 4, 2, 150}}}},
      {.name = "across_wider_than_channels",
       .prototxt = "lrn_param { local_size: 19 beta: 1 }",
       .inputs = {input}},
      {.name = "across_one",
       .prototxt = "lrn_param { local_size: 1 beta: 0.6 k: 1.5 }",
       .inputs = {input}},
      {.name = "within",
       .prototxt = "lrn_param { " + within + " local_size: 3 }",
       .inputs = {{.shape = {2, 2, 5, 6}}}},
      {.name = "within_wider_than_plane",
       .prototxt = "lrn_param { " + within + " local_size: 9 alpha: 3 beta: 0.9 k: 7 }",
       .inputs = {input}},
      {.name = "across_no_spatial",
       .prototxt = "lrn_param { local_size: 3 }",
       .inputs = {{.shape = {3, 6}}}},
      {.name = "across_line", .prototxt = "", .inputs = {{.shape = {2, 6, 5}}}},
      {.name = "across_volume",
       .prototxt = "lrn_param { local_size: 3 alpha: 0.5 }",
       .inputs = {{.shape = {1, 5, 2, 3, 4}}}},
      {.name = "within_line",
       .prototxt = "lrn_param { " + within + " local_size: 3 alpha: 2 }",
       .inputs = {{.shape = {2, 2, 7}}}},
      {.name = "within_volume",
       .prototxt = "lrn_param { " + within + " local_size: 3 alpha: 2 beta: 0.5 }",
       .inputs = {{.shape = {1, 2, 3, 4, 5}}}},
      {.name = "within_volume_wide",
       .prototxt = "lrn_param { " + within + " local_size: 4294967295 alpha: 1e20 }",
       .inputs = {{.shape = {1, 2, 2, 3, 2}}}},
      {.name = "within_empty",
       .prototxt = "lrn_param { " + within + " }",
       .inputs = {{.shape = {1, 2, 0, 3, 2}}}},
      {.name = "whole_blocks",
       .prototxt = "lrn_param { alpha: 2 }",
       .inputs = {{.shape = {2, 32, 3, 5}}}},
      {.name = "whole_blocks_of_three",
       .prototxt = "lrn_param { local_size: 3 alpha: 2 beta: 0.6 k: 2 }",
       .inputs = {{.shape = {1, 16, 2, 2}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 2, 2}}}},
  };
  type.bad_samples = {
      {"lrn_param { local_size: 4 }", {{1, 5, 2, 2}}, "must be odd"},
      {"", {{5}}, "2 axes or more"},
      {"lrn_param { " + within + " }", {{1, 5}}, "3 axes or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
