// Proposal: the regions proposed by a region proposal network. Each position of the feature map has
// one anchor for each ratio and scale; the predicted offsets move and resize it. Boxes are clipped
// to the image, and boxes smaller than min_size (times the scale of the image) are dropped. The
// best pre_nms_topn then pass non-maximum suppression with nms_thresh, which keeps at most
// post_nms_topn. Sizes include both end pixels (x2 - x1 + 1). No gradient.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/proposal_boxes.h"
#include "math/box_suppression.h"

namespace crema {
namespace {

struct Candidates {
  std::vector<Box> boxes;
  std::vector<double> scores;
};

class Proposal final : public Layer {
 public:
  explicit Proposal(const LayerParameter& param) : Layer(param) {
    CheckRanges();
    anchors_ = ProposalAnchors<std::vector<Box>>(proposal());
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckInputs(context.inputs);
    const Shape& scores = context.inputs[0].shape;
    const int64_t anchors = Count() * scores[2] * scores[3];
    const int64_t most = std::min(
        {anchors, int64_t{proposal().pre_nms_topn()}, int64_t{proposal().post_nms_topn()}});
    LayerInfo info;
    info.outputs = {{Shape({scores[0] * most, 5}), context.inputs[0].dtype}};
    if (context.output_count > 1) {
      info.outputs.push_back({Shape({scores[0] * most, 1}), context.inputs[0].dtype});
    }
    info.gradient_forbidden = {true, true, true};
    info.dynamic_outputs = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* out = args.outputs[0].data<T>();
      T* score = args.outputs.size() > 1 ? args.outputs[1].data<T>() : nullptr;
      int64_t rows = 0;
      for (int64_t n = 0; n < shape[0]; ++n) {
        const Candidates all = MakeCandidates<T>(args, n);
        const std::vector<int64_t> best = BestFirst(
            all.scores, -std::numeric_limits<double>::infinity(), proposal().pre_nms_topn());
        const SuppressionRule rule{.threshold = double{proposal().nms_thresh()},
                                   .units = BoxUnits::kPixels,
                                   .most = proposal().post_nms_topn()};
        for (const int64_t i : Suppress(all.boxes, best, rule)) {
          const Box& box = all.boxes[static_cast<size_t>(i)];
          for (const double v : {static_cast<double>(n), box.xmin, box.ymin, box.xmax, box.ymax}) {
            *out++ = static_cast<T>(v);
          }
          if (score != nullptr) *score++ = static_cast<T>(all.scores[static_cast<size_t>(i)]);
          ++rows;
        }
      }
      args.output_shapes[0] = Shape({rows, 5});
      if (score != nullptr) args.output_shapes[1] = Shape({rows, 1});
    });
  }

 private:
  const ProposalParameter& proposal() const { return param().proposal_param(); }
  int64_t Count() const { return static_cast<int64_t>(anchors_.size()); }

  // Returns all boxes of image n that are large enough.
  template <typename T>
  Candidates MakeCandidates(const ForwardArgs& args, int64_t n) const {
    const Shape& shape = args.inputs[0].shape();
    const int64_t plane = shape[2] * shape[3];
    const T* scores = args.inputs[0].data<T>() + (2 * n + 1) * Count() * plane;  // second half
    const T* offsets = args.inputs[1].data<T>() + 4 * n * Count() * plane;
    const T* image = args.inputs[2].data<T>() + 3 * n;
    const double height = std::max(double{image[0]} - 1, 0.0);
    const double width = std::max(double{image[1]} - 1, 0.0);
    const double least = double{image[2]} * proposal().min_size();
    Candidates candidates;
    for (int64_t at = 0; at < plane; ++at) {
      const int64_t column = at % shape[3];
      const int64_t row = at / shape[3];
      const auto x = static_cast<double>(column * proposal().feat_stride());
      const auto y = static_cast<double>(row * proposal().feat_stride());
      for (int64_t a = 0; a < Count(); ++a) {
        BoxOffsets move;
        for (int64_t k = 0; k < 4; ++k) {
          move[static_cast<size_t>(k)] = double{offsets[(4 * a + k) * plane + at]};
        }
        const Box box =
            Clip(MoveAnchor(ShiftBox(anchors_[static_cast<size_t>(a)], x, y), move), width, height);
        if (!(box.width() + 1 >= least && box.height() + 1 >= least)) continue;
        candidates.boxes.push_back(box);
        candidates.scores.push_back(double{scores[a * plane + at]});
      }
    }
    return candidates;
  }

  void CheckInputs(std::span<const BlobSpec> inputs) const {
    const Shape& scores = inputs[0].shape;
    const Shape& offsets = inputs[1].shape;
    if (scores.axes() != 4 || scores[1] != 2 * Count()) {
      FailInputs(*this, StrCat("scores of shape ", ToString(scores), ", expected N x ", 2 * Count(),
                               " x H x W, two for each of ", Count(), " anchors"));
    }
    if (offsets.axes() != 4 || offsets[1] != 4 * Count() || offsets[0] != scores[0] ||
        offsets[2] != scores[2] || offsets[3] != scores[3]) {
      FailInputs(*this, StrCat("offsets of shape ", ToString(offsets), " for scores of shape ",
                               ToString(scores), ", expected four for each of ", Count(),
                               " anchors at the same places"));
    }
    if (inputs[2].shape.count() != 3 * scores[0]) {
      FailInputs(*this, StrCat("image sizes of shape ", ToString(inputs[2].shape), ", expected ",
                               scores[0], " x 3: height, width, scale"));
    }
  }

  void CheckRanges() const {
    const ProposalParameter& p = proposal();
    const auto check = [&](const char* field, double value) {
      if (value > 0 && std::isfinite(value)) return;
      FailField(*this, StrCat("proposal_param.", field),
                StrCat(field, " is ", value, ", expected more than 0"));
    };
    check("feat_stride", p.feat_stride());
    check("base_size", p.base_size());
    check("pre_nms_topn", p.pre_nms_topn());
    check("post_nms_topn", p.post_nms_topn());
    check("nms_thresh", p.nms_thresh());
    for (const float ratio : p.ratio()) check("ratio", ratio);
    for (const float scale : p.scale()) check("scale", scale);
  }

  std::vector<Box> anchors_;
};

}  // namespace

void RegisterProposal(Registry& registry) {
  LayerType type;
  type.name = "Proposal";
  type.category = "detection";
  type.summary = "Regions from the scores and offsets of a region proposal network (Faster R-CNN).";
  type.formula =
      "boxes = clip(move(anchor + place feat_stride, offsets)); best pre_nms_topn, less overlaps > "
      "nms_thresh, best post_nms_topn";
  type.input_docs = {
      "scores: N x 2A x H x W; channels A..2A-1 are the scores of an object",
      "offsets: N x 4A x H x W; shift of x and y, logarithms of width and height, anchor by anchor",
      "image sizes: N x 3; height, width and scale of each image in pixels of the net's input"};
  type.output_docs = {
      "regions: R x 5, rows image, x1, y1, x2, y2, best first; R changes from batch "
      "to batch and may be 0",
      "scores: R x 1 (optional)"};
  type.differences = {"Any batch size; the Faster R-CNN ports take one image.",
                      "Without ratio or scale: 0.5, 1, 2 and 8, 16, 32, as in the Python layer.",
                      "No region at all leaves an output of 0 rows; some ports make one up."};
  type.origin = "Faster R-CNN";
  type.param_fields = {"proposal_param"};
  type.inputs = {3, 3};
  type.outputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Proposal>(p); };
  const SampleInput sizes{.shape = {2, 3}, .low = 60, .high = 60};
  const char* const few =
      "proposal_param { ratio: 0.5 ratio: 1 scale: 1 scale: 2 min_size: 0 pre_nms_topn: 40 "
      "post_nms_topn: 10 }";
  type.samples = {
      {.name = "regions",
       .prototxt = few,
       .inputs = {{.shape = {2, 8, 3, 4}}, {.shape = {2, 16, 3, 4}}, sizes}},
      {.name = "with_scores",
       .prototxt = few,
       .inputs = {{.shape = {2, 8, 3, 4}}, {.shape = {2, 16, 3, 4}}, sizes},
       .outputs = 2},
      {.name = "standard",
       .prototxt = "proposal_param { min_size: 1 }",
       .inputs = {{.shape = {1, 18, 2, 3}},
                  {.shape = {1, 36, 2, 3}},
                  {.shape = {1, 3}, .low = 40, .high = 40}}},
      {.name = "all_too_small",
       .prototxt = "proposal_param { min_size: 99 }",
       .inputs = {{.shape = {2, 18, 2, 3}}, {.shape = {2, 36, 2, 3}}, sizes},
       .outputs = 2},
      {.name = "empty_map",
       .prototxt = "",
       .inputs = {{.shape = {1, 18, 0, 3}}, {.shape = {1, 36, 0, 3}}, {.shape = {1, 3}}}},
  };
  for (LayerSample& sample : type.samples) {
    sample.gradient = false;
    sample.phase = TEST;
  }
  const std::vector<std::vector<int64_t>> shapes = {{1, 18, 2, 3}, {1, 36, 2, 3}, {1, 3}};
  type.bad_samples = {
      {"proposal_param { scale: 8 }", shapes, "3 anchors"},
      {"proposal_param { feat_stride: 0 }", shapes, "feat_stride is 0"},
      {"proposal_param { nms_thresh: nan }", shapes, "nms_thresh is nan"},
      {"proposal_param { ratio: -1 }", shapes, "ratio is -1"},
      {"", {{1, 18, 2, 3}, {1, 36, 2, 4}, {1, 3}}, "offsets of shape 1x36x2x4"},
      {"", {{1, 18, 2, 3}, {1, 36, 2, 3}, {1, 2}}, "image sizes of shape 1x2"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
