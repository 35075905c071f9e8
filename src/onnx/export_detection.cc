// PriorBox, DetectionOutput, the heads of YOLO and Proposal.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "layers/detection/box_inputs.h"
#include "layers/detection/proposal_boxes.h"
#include "layers/detection/yolo_output.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

// The boxes do not depend on pixels: a constant.
void PriorBox(LayerExport& e) {
  const std::vector<float> boxes = e.RunNative({e.shape(0), e.shape(1)});
  e.out = {e.Add("Identity", {e.graph.Floats(DimsOf(e.out_shape()), boxes)})};
}

// Corners, each ... x 1.
struct Corners {
  std::string xmin, ymin, xmax, ymax;
};

Corners SplitCorners(LayerExport& e, const std::string& x, int axis) {
  const std::vector<std::string> parts =
      e.graph.AddMany("Split", {x, e.graph.Ints({1, 1, 1, 1})}, 4, {{"axis", axis}});
  return {parts[0], parts[1], parts[2], parts[3]};
}

std::string Join(LayerExport& e, const Corners& c, int axis) {
  return e.Add("Concat", {c.xmin, c.ymin, c.xmax, c.ymax}, {{"axis", axis}});
}

// Scores of lines that are among the `most` best of the last axis (2), -infinity elsewhere. Of
// equal scores the first counts, as in BestFirst.
std::string KeepBest(LayerExport& e, const std::string& scores, int64_t most, int64_t count) {
  if (most < 0 || most >= count) return scores;
  const std::vector<std::string> best =
      e.graph.AddMany("TopK", {scores, e.graph.Ints({most})}, 2, {{"axis", 2}});
  const std::string lowest = e.graph.Scalar(-std::numeric_limits<float>::infinity());
  const std::string none = e.Add("Expand", {lowest, e.Add("Shape", {scores})});
  return e.Add("ScatterElements", {none, best[1], best[0]}, {{"axis", 2}});
}

// Boxes and scores of all images, and the choice among them.
struct Candidates {
  std::string boxes = {};   // N x P x 4, as the suppression sees them
  std::string scores = {};  // N x C x P
  int64_t classes = 1;
  int64_t count = 0;  // P
};

struct Chosen {
  std::string image, label, place;  // int64, M x 1 each
};

// Images in order, in each the classes in order, in each the best first: runtimes give that order.
Chosen Suppress(LayerExport& e, const Candidates& all, float threshold, float least, int64_t most) {
  const float overlap = std::min(threshold, 1.0F);
  const std::string chosen = e.Add(
      "NonMaxSuppression", {all.boxes, all.scores, e.graph.Ints({most < 0 ? all.count : most}),
                            e.graph.Floats({1}, {overlap}), e.graph.Floats({1}, {least})});
  const auto column = [&](int64_t i) { return e.Slice(chosen, 1, i, i + 1); };
  return {column(0), column(1), column(2)};
}

// (a * size + b) * ..: an index into merged axes.
std::string Index(LayerExport& e, const std::string& a, int64_t size, const std::string& b) {
  return e.Add("Add", {e.Add("Mul", {a, e.graph.Int(size)}), b});
}

// Rows `index` (M x 1) of `rows` (K x width): M x width.
std::string Rows(LayerExport& e, const std::string& rows, const std::string& index) {
  return e.Add("Gather", {rows, e.Squeeze(index, {1})}, {{"axis", 0}});
}

// `rows` (M x 7), or one row of -1 after each image if no score exceeds `least`, so that there are
// no others.
std::string OrNothing(LayerExport& e, const std::string& rows, const std::string& scores,
                      float least, int64_t images) {
  std::vector<float> none;
  for (int64_t n = 0; n < images; ++n) {
    none.push_back(static_cast<float>(n));
    none.insert(none.end(), 6, -1);
  }
  const std::string nothing = e.graph.Floats({images, 7}, none);
  const std::string best = OnnxReduce(&e.graph, "ReduceMax", scores, {0, 1, 2}, false);
  const std::vector<float> limits(static_cast<size_t>(images), least);
  const std::string some = e.Add("Greater", {best, e.graph.Floats({images}, limits)});
  const std::string fallback = e.Add("Compress", {nothing, e.Add("Not", {some})}, {{"axis", 0}});
  return e.Add("Concat", {rows, fallback}, {{"axis", 0}});
}

class Detections {
 public:
  explicit Detections(LayerExport* e)
      : e_(*e),
        p_(e->param.detection_output_param()),
        sizes_(CheckPredictions(e->layer, e->specs, p_.num_classes(), p_.share_location())) {
    for (const int64_t c : Range(0, sizes_.classes)) {
      if (c != p_.background_label_id()) labels_.push_back(c);
    }
    if (p_.nms_param().eta() < 1) {
      e_.Refuse("nms_param.eta below 1 changes the threshold from box to box; set it to 1");
    }
    if (sizes_.priors == 0 || sizes_.images == 0 || labels_.empty()) {
      e_.Refuse("it has no box to choose from");
    }
  }

  std::string Write() {
    const int64_t n = sizes_.images, p = sizes_.priors;
    const auto classes = static_cast<int64_t>(labels_.size());
    const bool shared = p_.share_location();
    const std::string boxes = shared ? Decoded() : OwnBoxes();
    Candidates all{.scores = Scores(), .classes = classes, .count = p};
    // Boxes without area overlap nothing; ONNX would exchange their corners.
    all.boxes = Proper(boxes);
    const int64_t top_k = p_.nms_param().has_top_k() ? p_.nms_param().top_k() : -1;
    all.scores = KeepBest(e_, all.scores, top_k, p);
    const std::string scores = all.scores;
    if (!shared) {
      all.scores = e_.Add("Reshape", {scores, e_.graph.Ints({n * classes, 1, p})});
    }
    const float least = p_.has_confidence_threshold() ? p_.confidence_threshold()
                                                      : -std::numeric_limits<float>::max();
    Chosen chosen = Suppress(e_, all, p_.nms_param().nms_threshold(), least, -1);
    if (!shared) {  // each class of each image was an image
      const std::string both = chosen.image;
      chosen.image = e_.Add("Div", {both, e_.graph.Int(classes)});
      chosen.label = e_.Add("Mod", {both, e_.graph.Int(classes)});
    }
    const std::string line = Index(e_, chosen.image, classes, chosen.label);
    const std::string box_line = shared ? chosen.image : line;
    const std::string flat_scores = e_.Add("Reshape", {scores, e_.graph.Ints({-1, 1})});
    const std::string index = Index(e_, line, p, chosen.place);
    const std::string score = Rows(e_, flat_scores, index);
    const std::string flat_boxes = e_.Add("Reshape", {boxes, e_.graph.Ints({-1, 4})});
    const std::string box = Rows(e_, flat_boxes, Index(e_, box_line, p, chosen.place));
    const std::string label = Rows(e_, e_.graph.Ints(labels_), chosen.label);
    std::string rows = e_.Add(
        "Concat", {e_.ToFloat(chosen.image), e_.ToFloat(e_.Unsqueeze(label, {1})), score, box},
        {{"axis", 1}});
    rows = BestOfImages(rows, e_.Squeeze(index, {1}), score);
    // No score exceeds infinity: with keep_top_k 0 there are no rows at all.
    const bool none = p_.keep_top_k() == 0;
    rows = OrNothing(e_, rows, scores, none ? std::numeric_limits<float>::infinity() : least,
                     sizes_.images);
    return e_.Add("Reshape", {rows, e_.graph.Ints({1, 1, -1, 7})});
  }

 private:
  // N x P x L x 4 or, with shared locations, N x P x 4.
  std::string Decoded() {
    const int64_t n = sizes_.images, p = sizes_.priors, l = sizes_.box_classes;
    const bool shared = p_.share_location();
    const Shape shape = shared ? Shape{n, p, 4} : Shape{n, p, l, 4};
    const int axis = shape.axes() - 1;
    Corners o = SplitCorners(e_, e_.Reshape(e_.in[0], shape), axis);
    const Shape rows = shared ? Shape{2, p, 4} : Shape{2, p, 1, 4};
    const std::vector<std::string> parts = e_.graph.AddMany(
        "Split", {e_.Reshape(e_.in[2], e_.shape(2), rows, false), e_.graph.Ints({1, 1})}, 2,
        {{"axis", 0}});
    const Corners prior = SplitCorners(e_, e_.Squeeze(parts[0], {0}), axis - 1);
    if (!p_.variance_encoded_in_target()) {
      const Corners v = SplitCorners(e_, e_.Squeeze(parts[1], {0}), axis - 1);
      o = {Times(o.xmin, v.xmin), Times(o.ymin, v.ymin), Times(o.xmax, v.xmax),
           Times(o.ymax, v.ymax)};
    }
    const std::string boxes = Join(e_, Decode(o, prior), axis);
    if (!p_.clip()) return boxes;
    return e_.Add("Clip", {boxes, e_.graph.Scalar(0), e_.graph.Scalar(1)});
  }

  std::string Times(const std::string& a, const std::string& b) { return e_.Add("Mul", {a, b}); }
  std::string Plus(const std::string& a, const std::string& b) { return e_.Add("Add", {a, b}); }
  std::string Minus(const std::string& a, const std::string& b) { return e_.Add("Sub", {a, b}); }
  std::string Half(const std::string& a) { return e_.Affine(a, 0.5, 0); }

  Corners Decode(const Corners& o, const Corners& prior) {
    const std::string width = Minus(prior.xmax, prior.xmin);
    const std::string height = Minus(prior.ymax, prior.ymin);
    if (p_.code_type() == PriorBoxParameter::CENTER_SIZE) {
      const std::string x = Plus(Half(Plus(prior.xmin, prior.xmax)), Times(o.xmin, width));
      const std::string y = Plus(Half(Plus(prior.ymin, prior.ymax)), Times(o.ymin, height));
      const std::string across = Half(Times(e_.Add("Exp", {o.xmax}), width));
      const std::string down = Half(Times(e_.Add("Exp", {o.ymax}), height));
      return {Minus(x, across), Minus(y, down), Plus(x, across), Plus(y, down)};
    }
    Corners moved = o;
    if (p_.code_type() == PriorBoxParameter::CORNER_SIZE) {
      moved = {Times(o.xmin, width), Times(o.ymin, height), Times(o.xmax, width),
               Times(o.ymax, height)};
    }
    return {Plus(prior.xmin, moved.xmin), Plus(prior.ymin, moved.ymin),
            Plus(prior.xmax, moved.xmax), Plus(prior.ymax, moved.ymax)};
  }

  // (N classes) x P x 4
  std::string OwnBoxes() {
    const std::string by_class = e_.Transpose(Decoded(), {0, 2, 1, 3});
    const std::string wanted = e_.Add("Gather", {by_class, e_.graph.Ints(labels_)}, {{"axis", 1}});
    return e_.Add("Reshape", {wanted, e_.graph.Ints({-1, sizes_.priors, 4})});
  }

  std::string Proper(const std::string& boxes) {
    Corners c = SplitCorners(e_, boxes, 2);
    c.xmax = e_.Add("Max", {c.xmin, c.xmax});
    c.ymax = e_.Add("Max", {c.ymin, c.ymax});
    return Join(e_, c, 2);
  }

  // N x classes x P, without the background.
  std::string Scores() {
    const Shape shape{sizes_.images, sizes_.priors, sizes_.classes};
    const std::string all =
        e_.Transpose(e_.Reshape(e_.in[1], e_.shape(1), shape, false), {0, 2, 1});
    if (static_cast<int64_t>(labels_.size()) == sizes_.classes) return all;
    return e_.Add("Gather", {all, e_.graph.Ints(labels_)}, {{"axis", 1}});
  }

  // Keeps the best keep_top_k rows of each image, in their order. `index` (M) is the place of each
  // row among all scores.
  std::string BestOfImages(const std::string& rows, const std::string& index,
                           const std::string& score) {
    const int64_t each = static_cast<int64_t>(labels_.size()) * sizes_.priors;
    const int64_t most = p_.keep_top_k();
    if (most < 0 || most >= each) return rows;
    const auto filled = [&](double value, const std::vector<int64_t>& dims) {
      return e_.Add("Expand", {e_.graph.Scalar(value), e_.graph.Ints(dims)});
    };
    std::string best = filled(0, {sizes_.images, each});  // 1: kept
    if (most > 0) {
      const std::string lowest =
          filled(-std::numeric_limits<float>::infinity(), {sizes_.images * each});
      const std::string scores =
          e_.Add("ScatterElements", {lowest, index, e_.Squeeze(score, {1})}, {{"axis", 0}});
      const std::string by_image =
          e_.Add("Reshape", {scores, e_.graph.Ints({sizes_.images, each})});
      const std::string places =
          e_.graph.AddMany("TopK", {by_image, e_.graph.Ints({most})}, 2, {{"axis", 1}})[1];
      const std::string ones = filled(1, {sizes_.images, most});
      best = e_.Add("ScatterElements", {best, places, ones}, {{"axis", 1}});
    }
    const std::string flat = e_.Add("Reshape", {best, e_.graph.Ints({-1})});
    const std::string kept = e_.Add("Gather", {flat, index}, {{"axis", 0}});
    const std::string is_kept = e_.Add("Greater", {kept, e_.graph.Scalar(0)});
    return e_.Add("Compress", {rows, is_kept}, {{"axis", 0}});
  }

  LayerExport& e_;
  const DetectionOutputParameter& p_;
  const BoxSizes sizes_;
  std::vector<int64_t> labels_;  // classes without the background
};

void DetectionOutput(LayerExport& e) { e.out = {Detections(&e).Write()}; }

// Places and half sizes of the anchors of a grid, anchor by anchor, place by place.
struct YoloPlaces {
  std::vector<float> columns, lines, widths, heights;
};

YoloPlaces PlacesOf(const YoloGrid& grid) {
  YoloPlaces places;
  for (const YoloAnchor& anchor : grid.anchors) {
    const double width = anchor.width / static_cast<double>(grid.width) / 2;
    const double height = anchor.height / static_cast<double>(grid.height) / 2;
    for (int64_t at = 0; at < grid.places(); ++at) {
      const int64_t line = at / grid.width;
      places.columns.push_back(static_cast<float>(at % grid.width));
      places.lines.push_back(static_cast<float>(line));
      places.widths.push_back(static_cast<float>(width));
      places.heights.push_back(static_cast<float>(height));
    }
  }
  return places;
}

// The heads of YOLO: one list of boxes of all classes for each image.
class YoloDetections {
 public:
  YoloDetections(LayerExport* e, YoloVersion version) : e_(*e), head_(HeadOf(*e, version)) {
    if (head_.boxes == 0 || head_.images == 0) e_.Refuse("it has no box to choose from");
  }

  std::string Write() {
    std::vector<std::string> boxes, scores, labels;
    for (size_t g = 0; g < head_.grids.size(); ++g) {
      AddGrid(g, &boxes, &scores, &labels);
    }
    Candidates all{.boxes = e_.Add("Concat", boxes, {{"axis", 1}}),
                   .scores = e_.Unsqueeze(e_.Add("Concat", scores, {{"axis", 1}}), {1}),
                   .count = head_.boxes};
    const auto least = static_cast<float>(head_.least);
    const Chosen chosen = Suppress(e_, all, static_cast<float>(head_.overlap), least, -1);
    const std::string index = Index(e_, chosen.image, head_.boxes, chosen.place);
    const auto column = [&](const std::string& values, int64_t width) {
      return Rows(e_, e_.Add("Reshape", {values, e_.graph.Ints({-1, width})}), index);
    };
    const std::string label = column(e_.Add("Concat", labels, {{"axis", 1}}), 1);
    const std::string rows = e_.Add("Concat",
                                    {e_.ToFloat(chosen.image), e_.Affine(e_.ToFloat(label), 1, 1),
                                     column(all.scores, 1), column(all.boxes, 4)},
                                    {{"axis", 1}});
    const std::string found = OrNothing(e_, rows, all.scores, least, head_.images);
    return e_.Add("Reshape", {found, e_.graph.Ints({1, 1, -1, 7})});
  }

 private:
  static YoloHead HeadOf(const LayerExport& e, YoloVersion version) {
    std::vector<Shape> shapes;
    for (const BlobSpec& spec : e.specs) shapes.push_back(spec.shape);
    return YoloHeadOf(e.layer, version, shapes);
  }

  // Adds boxes N x P x 4, scores N x P and labels N x P of one grid.
  void AddGrid(size_t g, std::vector<std::string>* boxes, std::vector<std::string>* scores,
               std::vector<std::string>* labels) {
    const YoloGrid& grid = head_.grids[g];
    const auto anchors = static_cast<int64_t>(grid.anchors.size());
    const int64_t n = head_.images, p = anchors * grid.places(), channels = 5 + head_.classes;
    const std::string parts =
        e_.Reshape(e_.in[g], e_.shape(g), Shape{n, anchors, channels, grid.places()}, e_.open[g]);
    const auto flat = [&](const std::string& part, int64_t last) {
      return e_.Add("Reshape", {part, e_.graph.Ints(last == 0 ? std::vector<int64_t>{n, p}
                                                              : std::vector<int64_t>{n, p, last})});
    };
    const auto part = [&](int64_t c) { return flat(e_.Slice(parts, 2, c, c + 1), 0); };
    const YoloPlaces at = PlacesOf(grid);
    const auto constant = [&](const std::vector<float>& v) { return e_.graph.Floats({p}, v); };
    const auto side = [&](int64_t c, const std::vector<float>& cell, int64_t cells,
                          const std::vector<float>& size) {
      const std::string moved = e_.Add("Add", {constant(cell), e_.Add("Sigmoid", {part(c)})});
      const std::string centre = e_.Affine(moved, 1 / static_cast<double>(cells), 0);
      const std::string half = e_.Add("Mul", {e_.Add("Exp", {part(c + 2)}), constant(size)});
      return std::pair{e_.Add("Sub", {centre, half}), e_.Add("Add", {centre, half})};
    };
    auto [xmin, xmax] = side(0, at.columns, grid.width, at.widths);
    auto [ymin, ymax] = side(1, at.lines, grid.height, at.heights);
    Corners corners{xmin, ymin, xmax, ymax};
    for (std::string* c : {&corners.xmin, &corners.ymin, &corners.xmax, &corners.ymax}) {
      *c = e_.Unsqueeze(*c, {2});
    }
    boxes->push_back(Join(e_, corners, 2));
    const std::string classes = e_.Slice(parts, 2, 5, channels);
    const std::string shares = head_.version == YoloVersion::kV2
                                   ? e_.Add("Softmax", {classes}, {{"axis", 2}})
                                   : e_.Add("Sigmoid", {classes});
    const std::string best = OnnxReduce(&e_.graph, "ReduceMax", shares, {2}, true);
    scores->push_back(e_.Add("Mul", {e_.Add("Sigmoid", {part(4)}), flat(best, 0)}));
    labels->push_back(flat(e_.Add("ArgMax", {classes}, {{"axis", 2}}), 0));
  }

  LayerExport& e_;
  const YoloHead head_;
};

// Shifted anchors: centres and sizes of all places, place by place.
struct Anchors {
  std::vector<float> x, y, width, height;
};

Anchors AnchorsOf(const ProposalParameter& p, const Shape& scores) {
  Anchors anchors;
  const std::vector<Box> boxes = ProposalAnchors<std::vector<Box>>(p);
  for (int64_t at = 0; at < scores[2] * scores[3]; ++at) {
    const int64_t column = at % scores[3], line = at / scores[3];
    const auto x = static_cast<double>(column * p.feat_stride());
    const auto y = static_cast<double>(line * p.feat_stride());
    for (const Box& box : boxes) {
      const double width = box.width() + 1, height = box.height() + 1;
      anchors.x.push_back(static_cast<float>(box.xmin + x + width / 2));
      anchors.y.push_back(static_cast<float>(box.ymin + y + height / 2));
      anchors.width.push_back(static_cast<float>(width));
      anchors.height.push_back(static_cast<float>(height));
    }
  }
  return anchors;
}

// Boxes of all places, N x P each, within the images (N x 1 each).
Corners ProposedBoxes(LayerExport& e, const std::string& height, const std::string& width) {
  const Shape& s = e.shape();
  const int64_t a = s[1] / 2, count = a * s[2] * s[3];
  const Shape split{s[0], a, 4, s[2], s[3]};
  const Shape flat{s[0], count, 4};
  std::string offsets =
      e.Transpose(e.Reshape(e.in[1], e.shape(1), split, e.open[1]), {0, 3, 4, 1, 2});
  offsets = e.Reshape(offsets, Shape{s[0], s[2], s[3], a, 4}, flat, e.open[1]);
  Corners o = SplitCorners(e, offsets, 2);
  for (std::string* part : {&o.xmin, &o.ymin, &o.xmax, &o.ymax}) *part = e.Squeeze(*part, {2});
  const Anchors anchors = AnchorsOf(e.param.proposal_param(), s);
  const auto constant = [&](const std::vector<float>& values) {
    return e.graph.Floats({count}, values);
  };
  const auto side = [&](const std::string& shift, const std::string& grow,
                        const std::vector<float>& centre, const std::vector<float>& size,
                        const std::string& most) {
    const std::string own = constant(size);
    const std::string middle = e.Add("Add", {constant(centre), e.Add("Mul", {shift, own})});
    const std::string half = e.Affine(e.Add("Mul", {e.Add("Exp", {grow}), own}), 0.5, 0);
    const auto inside = [&](const std::string& v) {
      return e.Add("Min", {e.Add("Max", {v, e.graph.Scalar(0)}), most});
    };
    return std::pair{inside(e.Add("Sub", {middle, half})), inside(e.Add("Add", {middle, half}))};
  };
  const auto [xmin, xmax] = side(o.xmin, o.xmax, anchors.x, anchors.width, width);
  const auto [ymin, ymax] = side(o.ymin, o.ymax, anchors.y, anchors.height, height);
  return {xmin, ymin, xmax, ymax};
}

// Scores of the boxes, N x 1 x P; -infinity for those that are too small.
std::string ProposedScores(LayerExport& e, const Corners& box, const std::string& least) {
  const Shape& s = e.shape();
  const int64_t a = s[1] / 2;
  const std::string half = e.Slice(e.in[0], 1, a, 2 * a);
  const std::string scores = e.Reshape(e.Transpose(half, {0, 2, 3, 1}), Shape{s[0], s[2], s[3], a},
                                       Shape{s[0], a * s[2] * s[3]}, e.open[0]);
  const auto fits = [&](const std::string& low, const std::string& high) {
    const std::string size = e.Affine(e.Add("Sub", {high, low}), 1, 1);
    return e.Add("GreaterOrEqual", {size, least});
  };
  const std::string large = e.Add("And", {fits(box.xmin, box.xmax), fits(box.ymin, box.ymax)});
  const std::string lowest = e.graph.Scalar(-std::numeric_limits<float>::infinity());
  return e.Unsqueeze(e.Add("Where", {large, scores, lowest}), {1});
}

void Proposal(LayerExport& e) {
  const ProposalParameter& p = e.param.proposal_param();
  const Shape& s = e.shape();
  const int64_t count = s[1] / 2 * s[2] * s[3];
  if (count == 0) e.Refuse("its feature map has no place");
  const std::string sizes = e.Reshape(e.in[2], e.shape(2), Shape{s[0], 3}, e.open[2]);
  const auto last = [&](int64_t i) {
    return e.Add("Max", {e.Affine(e.Slice(sizes, 1, i, i + 1), 1, -1), e.graph.Scalar(0)});
  };
  const Corners box = ProposedBoxes(e, last(0), last(1));
  const std::string least = e.Affine(e.Slice(sizes, 1, 2, 3), p.min_size(), 0);
  const std::string scores = ProposedScores(e, box, least);
  const auto join = [&](const Corners& c) {
    Corners own = c;
    for (std::string* part : {&own.xmin, &own.ymin, &own.xmax, &own.ymax}) {
      *part = e.Unsqueeze(*part, {2});
    }
    return Join(e, own, 2);
  };
  // Both end pixels count: the suppression sees boxes that end one pixel later.
  const Corners wide = {box.xmin, box.ymin, e.Affine(box.xmax, 1, 1), e.Affine(box.ymax, 1, 1)};
  const Candidates all{
      .boxes = join(wide), .scores = KeepBest(e, scores, p.pre_nms_topn(), count), .count = count};
  const Chosen chosen =
      Suppress(e, all, p.nms_thresh(), -std::numeric_limits<float>::max(), p.post_nms_topn());
  const std::string index = Index(e, chosen.image, count, chosen.place);
  const std::string boxes = e.Add("Reshape", {join(box), e.graph.Ints({-1, 4})});
  e.out = {e.Add("Concat", {e.ToFloat(chosen.image), Rows(e, boxes, index)}, {{"axis", 1}})};
  if (e.info.outputs.size() < 2) return;
  const std::string flat = e.Add("Reshape", {scores, e.graph.Ints({-1, 1})});
  e.out.push_back(Rows(e, flat, index));
}

}  // namespace

void AddDetectionEmitters(EmitterTable* table) {
  table->insert({{"DetectionOutput", DetectionOutput},
                 {"PriorBox", PriorBox},
                 {"Proposal", Proposal},
                 {"YoloDetectionOutput",
                  [](LayerExport& e) { e.out = {YoloDetections(&e, YoloVersion::kV2).Write()}; }},
                 {"Yolov3DetectionOutput",
                  [](LayerExport& e) { e.out = {YoloDetections(&e, YoloVersion::kV3).Write()}; }}});
}

}  // namespace crema
