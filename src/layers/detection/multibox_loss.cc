// MultiBoxLoss: loc_weight * L_loc / Z + L_conf / Z. Priors are matched with objects. L_loc is the
// smooth L1 (or half squared) distance between the predicted offsets of matched priors and those of
// their objects. L_conf is the softmax (or logistic) loss of the classes of matched priors and of
// background priors selected by mining. Matching and mining are constants for the gradient, which
// Forward computes along with the sums and saves.
#include <algorithm>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/multibox_image.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest values per thread

class MultiBoxLoss final : public Layer {
 public:
  explicit MultiBoxLoss(const LayerParameter& param)
      : Layer(param), rule_(MakeMultiBoxRule(*this)) {}

  LayerInfo Infer(const InferContext& context) const override {
    SizesOf(context.inputs);  // throws if they do not fit
    CountRows(*this, context.inputs[3].shape, 8, "objects");
    const DType dtype = context.inputs[0].dtype;
    LayerInfo info;
    info.outputs = {{Shape{}, dtype}};
    // The gradients of the sums, and 1 / Z.
    info.saved = {
        {context.inputs[0].shape, dtype}, {context.inputs[1].shape, dtype}, {Shape{}, dtype}};
    info.gradient_forbidden = {false, false, true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    std::vector<BlobSpec> specs;
    for (const ConstTensorView& input : args.inputs) specs.push_back({input.shape()});
    const BoxSizes sizes = SizesOf(specs);
    const Priors priors = ReadPriors(args.inputs[2], !loss().encode_variance_in_target());
    const auto objects = ObjectsByImage(args.inputs[3], sizes.images);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      std::vector<MultiBoxSums> sums(static_cast<size_t>(sizes.images));
      ParallelFor(args.context.threads(), sizes.images, 1, [&](int64_t b, int64_t e, int) {
        for (int64_t n = b; n < e; ++n) {
          const auto i = static_cast<size_t>(n);
          sums[i] = OneImage<T>(args, sizes, n, priors, objects[i]);
        }
      });
      MultiBoxSums total;
      for (const MultiBoxSums& s : sums) {
        total.loc += s.loc;
        total.conf += s.conf;
        total.matches += s.matches;
      }
      const double divisor = DivisorOf(param(), sizes).Of(total.matches);
      args.outputs[0].data<T>()[0] =
          static_cast<T>((double{loss().loc_weight()} * total.loc + total.conf) / divisor);
      if (!args.saved[2].empty()) args.saved[2].data<T>()[0] = static_cast<T>(1 / divisor);
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const double weight =
          double{args.output_grads[0].data<T>()[0]} * double{args.saved[2].data<T>()[0]};
      for (const size_t i : {size_t{0}, size_t{1}}) {
        if (args.input_grads[i].empty()) continue;
        const T factor = static_cast<T>(i == 0 ? weight * double{loss().loc_weight()} : weight);
        const T* slope = args.saved[i].data<T>();
        T* grad = args.input_grads[i].data<T>();
        ParallelFor(args.context.threads(), args.saved[i].count(), kGrain,
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t k = begin; k < end; ++k) grad[k] = factor * slope[k];
                    });
      }
    });
  }

 private:
  const MultiBoxLossParameter& loss() const { return param().multibox_loss_param(); }

  BoxSizes SizesOf(std::span<const BlobSpec> inputs) const {
    return CheckPredictions(*this, inputs, rule_.classes, loss().share_location());
  }

  template <typename T>
  MultiBoxSums OneImage(const ForwardArgs& args, const BoxSizes& sizes, int64_t n,
                        const Priors& priors, std::span<const LabelledObject> objects) const {
    const auto values = [&](size_t input, int64_t count) {
      const T* first = args.inputs[input].data<T>() + n * count;
      return std::vector<double>(first, first + count);
    };
    const int64_t loc_count = sizes.priors * sizes.box_classes * 4;
    const int64_t conf_count = sizes.priors * sizes.classes;
    const std::vector<double> loc = values(0, loc_count);
    const std::vector<double> conf = values(1, conf_count);
    const bool save = !args.saved[0].empty();
    std::vector<double> loc_grad(save ? loc.size() : 0);
    std::vector<double> conf_grad(save ? conf.size() : 0);
    const MultiBoxSums sums = MultiBoxImage(rule_, priors, objects, loc, conf, loc_grad, conf_grad);
    if (save) {
      const auto store = [](double v) { return static_cast<T>(v); };
      std::ranges::transform(loc_grad, args.saved[0].data<T>() + n * loc_count, store);
      std::ranges::transform(conf_grad, args.saved[1].data<T>() + n * conf_count, store);
    }
    return sums;
  }

  std::vector<std::vector<LabelledObject>> ObjectsByImage(const ConstTensorView& blob,
                                                          int64_t images) const {
    const bool use_difficult = loss().use_difficult_gt() && !loss().ignore_difficult_gt();
    std::vector<std::vector<LabelledObject>> by_image(static_cast<size_t>(images));
    for (const LabelledObject& object : ReadObjects(
             *this, blob,
             {.images = images, .classes = rule_.classes, .background = rule_.background})) {
      if (object.difficult && !use_difficult) continue;
      by_image[static_cast<size_t>(object.image)].push_back(object);
    }
    return by_image;
  }

  const MultiBoxRule rule_;
};

std::vector<LayerSample> Samples() {
  // Objects of integers 0 and 1: some boxes are the whole image, the others have no area.
  const auto inputs = [](int64_t locations) -> std::vector<SampleInput> {
    return {{.shape = {2, 24 * 4 * locations}},
            {.shape = {2, 24 * 3}},
            {.shape = {1, 2, 24 * 4}, .low = 0.05, .high = 1},
            {.shape = {1, 1, 60, 8}, .low = 0, .high = 1, .integer = true}};
  };
  std::vector<LayerSample> samples;
  const auto add = [&](const char* name, const std::string& text, const std::string& layer = "",
                       int64_t locations = 1) {
    samples.push_back(
        {.name = name,
         .prototxt = StrCat(layer, "multibox_loss_param { num_classes: 3 background_label_id: 2 ",
                            "overlap_threshold: 0.1 ", text, " }"),
         .inputs = inputs(locations)});
  };
  add("typical", "code_type: CENTER_SIZE neg_pos_ratio: 2");
  add("corner", "match_type: BIPARTITE loc_weight: 0.5");
  add("corner_size_l2", "code_type: CORNER_SIZE loc_loss_type: L2");
  add("logistic", "conf_loss_type: LOGISTIC encode_variance_in_target: true");
  add("all_negatives", "mining_type: NONE", "loss_param { normalization: FULL } ");
  add("own_locations", "mining_type: NONE share_location: false", "", 3);
  add("hard_examples", "mining_type: HARD_EXAMPLE sample_size: 6",
      "loss_param { normalization: BATCH_SIZE } ");
  add("hard_suppressed",
      "mining_type: HARD_EXAMPLE sample_size: 5 nms_param { nms_threshold: 0.5 top_k: 20 }",
      "loss_param { normalization: NONE } ");
  add("hard_suppressed_priors",
      "mining_type: HARD_EXAMPLE nms_param { nms_threshold: 0.4 } use_prior_for_nms: true",
      "loss_param { normalize: false } ");
  add("predicted_matching",
      "use_prior_for_matching: false encode_variance_in_target: true bp_inside: true");
  add("ignore_outside", "ignore_cross_boundary_bbox: true use_difficult_gt: false");
  add("old_mining", "do_neg_mining: false", "loss_param { normalize: true } ");
  add("conf_only", "", "propagate_down: false propagate_down: true ");
  samples.back().gradient = false;  // no gradient of loc is requested
  samples.push_back({.name = "agnostic",
                     .prototxt = "multibox_loss_param { num_classes: 4 background_label_id: 2 "
                                 "map_object_to_agnostic: true }",
                     .inputs = {{.shape = {2, 48}},
                                {.shape = {2, 48}},
                                {.shape = {1, 2, 48}, .low = 0.05, .high = 1},
                                {.shape = {1, 1, 60, 8}, .low = 0, .high = 1, .integer = true}}});
  samples.push_back(
      {.name = "no_objects",
       .prototxt = "multibox_loss_param { num_classes: 3 }",
       .inputs = {
           {.shape = {2, 8}}, {.shape = {2, 6}}, {.shape = {1, 2, 8}}, {.shape = {1, 1, 0, 8}}}});
  samples.push_back(
      {.name = "empty_batch",
       .prototxt = "multibox_loss_param { num_classes: 3 }",
       .inputs = {
           {.shape = {0, 8}}, {.shape = {0, 6}}, {.shape = {1, 2, 8}}, {.shape = {1, 1, 0, 8}}}});
  return samples;
}

std::vector<BadSample> BadSamples() {
  const std::vector<std::vector<int64_t>> shapes = {{2, 48}, {2, 36}, {1, 2, 48}, {1, 1, 5, 8}};
  std::vector<BadSample> bad;
  const auto add = [&](const char* text, const char* expect) {
    bad.push_back({StrCat("multibox_loss_param { ", text, " }"), shapes, expect});
  };
  add("", "num_classes must be given");
  add("num_classes: 4", "need 48 scores");
  add("num_classes: 3 background_label_id: 3", "background_label_id is 3");
  add("num_classes: 3 background_label_id: 2 map_object_to_agnostic: true", "after the background");
  add("num_classes: 3 share_location: false", "needs mining_type: NONE");
  add("num_classes: 3 do_neg_mining: false mining_type: MAX_NEGATIVE", "contradicts mining_type");
  add("num_classes: 3 loc_weight: nan", "loc_weight is nan");
  add("num_classes: 3 overlap_threshold: 0", "overlap_threshold is 0");
  add("num_classes: 3 neg_pos_ratio: -1", "neg_pos_ratio is -1");
  add("num_classes: 3 sample_size: -1", "sample_size is -1");
  add("num_classes: 3 nms_param { eta: 2 }", "eta is 2");
  bad.push_back({"multibox_loss_param { num_classes: 3 }",
                 {{2, 48}, {2, 36}, {1, 2, 48}, {1, 1, 5, 7}},
                 "objects of shape 1x1x5x7"});
  return bad;
}

}  // namespace

void RegisterMultiBoxLoss(Registry& registry) {
  LayerType type;
  type.name = "MultiBoxLoss";
  type.category = "detection";
  type.summary = "Trains a single-shot detector (SSD): loss of its boxes and of their classes.";
  type.formula =
      "loss = (loc_weight sum smooth_l1(loc - encode(object)) - sum ln softmax(conf)[class]) / Z; "
      "Z: matches (VALID), N P (FULL), N (BATCH_SIZE) or 1 (NONE), at least 1";
  type.input_docs = {
      "loc: N x 4 P L, the predicted offsets of P priors; L is 1, or the classes if share_location "
      "is false",
      "conf: N x P K, scores of K classes for each prior (before any softmax)",
      "priors: 1 x 2 x 4 P, of PriorBox",
      "objects: 1 x 1 x G x 8, rows item (index in the batch; -1: no object), label, instance, "
      "xmin, ymin, xmax, ymax in units of the image, difficult"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      ("Each forward pass starts afresh; the fork keeps matches of earlier ones until Backward has "
       "run."),
      ("LOGISTIC without mining: each prior has its own targets and background is a class like the "
       "others; the fork mixes up the targets of images."),
      "An object or prior without area matches nothing; the fork encodes infinite targets.",
      "An object with the label of the background, or of an image beyond the batch, is an error.",
      "ignore_difficult_gt (NVCaffe) does what use_difficult_gt: false does."};
  type.origin = "SSD";
  type.param_fields = {"multibox_loss_param", "loss_param"};
  type.unread_fields = {"loss_param.ignore_label",          "loss_param.class_weight",
                        "loss_param.class_weighting_mode",  "loss_param.label_smoothing",
                        "loss_param.weight_by_label_freqs", "loss_param.class_weighting"};
  type.inputs = {4, 4};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const MultiBoxLoss>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
