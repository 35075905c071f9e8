// Resizing and sampling at places.
#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using P = ResizeLayerParameter;

// A Resize or Upsample node of any opset: sizes or scales of the axes that change.
struct ResizeNode {
  Dims axes;
  Dims sizes;                 // empty: scales count
  std::vector<float> scales;  // empty: sizes count
  std::vector<float> roi;     // of `axes`: starts, then ends
};

template <typename T>
std::vector<T> Chosen(const std::vector<T>& from, const std::vector<size_t>& places) {
  std::vector<T> chosen;
  for (const size_t place : places) chosen.push_back(from[place]);
  return chosen;
}

ResizeNode ReadResize(const NodeImport& node, const OnnxBlob& x) {
  const auto count = static_cast<size_t>(x.shape.axes());
  const bool old = node.node().op_type() == "Upsample" || node.opset() < 11;
  Dims axes = CanonicalAxes(node, node.IntList("axes"), count);
  if (axes.empty()) {
    for (size_t k = 0; k < count; ++k) axes.push_back(static_cast<int64_t>(k));
  }
  std::vector<float> scales = node.FloatList("scales");
  const size_t scales_input = old ? 1 : 2;
  if (node.Has(scales_input)) scales = node.Floats(scales_input, "scales");
  const Dims sizes = !old && node.Has(3) ? node.Ints(3, "sizes") : Dims{};
  if (!scales.empty() && !sizes.empty()) node.Refuse("has both scales and sizes");
  std::vector<float> roi = !old && node.Has(1) ? node.Floats(1, "roi") : std::vector<float>{};
  if ((sizes.empty() ? scales.size() : sizes.size()) != axes.size()) {
    node.Refuse("has sizes or scales that do not fit its axes");
  }
  const bool crops = node.String("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops && roi.size() != 2 * axes.size()) node.Refuse("has a roi that does not fit its axes");
  // The policy takes its factor of all axes.
  const bool keeps_ratio =
      !sizes.empty() && node.String("keep_aspect_ratio_policy", "stretch") != "stretch";
  std::vector<size_t> changed;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool same =
        sizes.empty() ? scales[i] == 1 : sizes[i] == x.shape[static_cast<int>(axes[i])];
    const bool whole = !crops || (roi[i] == 0 && roi[axes.size() + i] == 1);
    if (!same || !whole || keeps_ratio) changed.push_back(i);
  }
  ResizeNode result{Chosen(axes, changed), {}, {}, {}};
  if (sizes.empty()) result.scales = Chosen(scales, changed);
  if (!sizes.empty()) result.sizes = Chosen(sizes, changed);
  if (!crops) return result;
  result.roi = Chosen(roi, changed);
  for (const size_t place : changed) result.roi.push_back(roi[axes.size() + place]);
  return result;
}

template <typename Value>
Value Named(const NodeImport& node, const std::string& name,
            const std::map<std::string, Value>& values) {
  const auto found = values.find(name);
  if (found == values.end()) node.Refuse(StrCat("has the unknown mode '", name, "'"));
  return found->second;
}

P::Coordinates CoordinatesOf(const NodeImport& node) {
  if (node.node().op_type() == "Upsample" || node.opset() < 11) return P::ASYMMETRIC;
  return Named<P::Coordinates>(node, node.String("coordinate_transformation_mode", "half_pixel"),
                               {{"half_pixel", P::HALF_PIXEL},
                                {"pytorch_half_pixel", P::PYTORCH_HALF_PIXEL},
                                {"align_corners", P::ALIGN_CORNERS},
                                {"asymmetric", P::ASYMMETRIC},
                                {"half_pixel_symmetric", P::HALF_PIXEL_SYMMETRIC},
                                {"tf_crop_and_resize", P::TF_CROP_AND_RESIZE}});
}

P::NearestMode NearestOf(const NodeImport& node) {
  if (node.node().op_type() == "Upsample" || node.opset() < 11) return P::FLOOR;
  return Named<P::NearestMode>(node, node.String("nearest_mode", "round_prefer_floor"),
                               {{"round_prefer_floor", P::ROUND_PREFER_FLOOR},
                                {"round_prefer_ceil", P::ROUND_PREFER_CEIL},
                                {"floor", P::FLOOR},
                                {"ceil", P::CEIL}});
}

void SetResize(const NodeImport& node, const ResizeNode& resize, P* param) {
  for (const int64_t axis : resize.axes) param->add_axes(static_cast<int>(axis));
  for (const int64_t size : resize.sizes) param->add_size(size);
  for (const float scale : resize.scales) param->add_scale(scale);
  for (const float bound : resize.roi) param->add_roi(bound);
  const std::string mode = node.String("mode", "nearest");
  param->set_interpolation(Named<P::Interpolation>(node, mode,
                                                   {{"nearest", P::NEAREST},
                                                    {"linear", P::LINEAR},
                                                    {"bilinear", P::LINEAR},
                                                    {"cubic", P::CUBIC}}));
  const P::Coordinates coordinates = CoordinatesOf(node);
  if (coordinates != P::HALF_PIXEL) param->set_coordinates(coordinates);
  if (param->interpolation() == P::NEAREST) param->set_nearest_mode(NearestOf(node));
  if (node.Float("cubic_coeff_a", -0.75F) != -0.75F) {
    param->set_cubic_coeff_a(node.Float("cubic_coeff_a", -0.75F));
  }
  if (node.Int("exclude_outside", 0) != 0) param->set_exclude_outside(true);
  if (node.Int("antialias", 0) != 0) param->set_antialias(true);
  if (node.Float("extrapolation_value", 0) != 0) {
    param->set_extrapolation_value(node.Float("extrapolation_value", 0));
  }
  const auto policy = Named<P::AspectRatio>(
      node, node.String("keep_aspect_ratio_policy", "stretch"),
      {{"stretch", P::STRETCH}, {"not_larger", P::NOT_LARGER}, {"not_smaller", P::NOT_SMALLER}});
  if (policy != P::STRETCH) param->set_aspect_ratio(policy);
}

// Returns the factor if the node repeats whole pixels of both spatial axes; else 0.
int RepeatsOf(const NodeImport& node, const ResizeNode& resize, const Shape& x) {
  if (x.axes() != 4 || resize.axes != Dims{2, 3} || node.String("mode", "nearest") != "nearest") {
    return 0;
  }
  const auto scale = [&](size_t i) {
    const auto in = static_cast<double>(x[static_cast<int>(i) + 2]);
    return resize.sizes.empty() ? resize.scales[i] : static_cast<double>(resize.sizes[i]) / in;
  };
  const double factor = scale(0);
  if (factor != scale(1) || factor != std::floor(factor) || factor < 2 || factor > 64) return 0;
  const P::Coordinates coordinates = CoordinatesOf(node);
  const P::NearestMode nearest = NearestOf(node);
  const bool rounds = nearest == P::ROUND_PREFER_FLOOR || nearest == P::ROUND_PREFER_CEIL;
  const bool repeats = (coordinates == P::ASYMMETRIC && nearest == P::FLOOR) ||
                       (coordinates == P::HALF_PIXEL && rounds);
  return repeats ? static_cast<int>(factor) : 0;
}

void ConvertResize(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const ResizeNode resize = ReadResize(node, x);
  if (resize.axes.empty()) return node.Output(0, x);
  if (const int factor = RepeatsOf(node, resize, x.shape); factor > 0) {
    return node.Output(0, node.Add("Upsample", {x}, [&](LayerParameter* layer) {
      layer->mutable_upsample_param()->set_scale(factor);
    }));
  }
  node.Output(0, node.Add("Resize", {x}, [&](LayerParameter* layer) {
    SetResize(node, resize, layer->mutable_resize_param());
  }));
}

void ConvertGridSample(NodeImport& node) {
  using G = GridSampleParameter;
  const OnnxBlob x = node.In(0);
  const OnnxBlob grid = node.In(1);
  const auto mode = Named<G::Interpolation>(node, node.String("mode", "linear"),
                                            {{"linear", G::LINEAR},
                                             {"bilinear", G::LINEAR},
                                             {"nearest", G::NEAREST},
                                             {"cubic", G::CUBIC},
                                             {"bicubic", G::CUBIC}});
  const auto padding = Named<G::Padding>(
      node, node.String("padding_mode", "zeros"),
      {{"zeros", G::ZEROS}, {"border", G::BORDER}, {"reflection", G::REFLECTION}});
  node.Output(0, node.Add("GridSample", {x, grid}, [&](LayerParameter* layer) {
    GridSampleParameter* param = layer->mutable_grid_sample_param();
    if (mode != G::LINEAR) param->set_interpolation(mode);
    if (padding != G::ZEROS) param->set_padding(padding);
    if (node.Int("align_corners", 0) != 0) param->set_align_corners(true);
  }));
}

void ConvertRoiAlign(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const OnnxBlob boxes = node.In(1);
  const OnnxBlob image = node.In(2);
  if (node.String("mode", "avg") != "avg") node.Refuse("takes the largest samples, not means");
  const std::string mode = node.String("coordinate_transformation_mode",
                                       node.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") node.Refuse("has an unknown mode");
  if (boxes.shape.axes() != 2 || image.shape.count() != boxes.shape[0]) {
    node.Refuse("takes boxes by 4 and an image for each");
  }
  const auto size = [&](const char* name, int64_t fallback, int64_t least) {
    const int64_t value = node.Int(name, fallback);
    if (value < least || value > (1 << 16)) node.Refuse(StrCat(name, " is ", value));
    return static_cast<uint32_t>(value);
  };
  const OnnxBlob column = ReshapeBlob(node, image, {boxes.shape[0], 1});
  const OnnxBlob regions = ConcatBlob(node, {column, boxes}, 1);
  const OnnxBlob y = node.Add("ROIAlign", {x, regions}, [&](LayerParameter* layer) {
    ROIAlignParameter* param = layer->mutable_roi_align_param();
    param->set_pooled_h(size("output_height", 1, 1));
    param->set_pooled_w(size("output_width", 1, 1));
    if (node.HasAttribute("spatial_scale"))
      param->set_spatial_scale(node.Float("spatial_scale", 1));
    if (const uint32_t ratio = size("sampling_ratio", 0, 0); ratio != 0) {
      param->set_sampling_ratio(ratio);
    }
    if (mode == "half_pixel") param->set_aligned(true);
  });
  node.Output(0, WithType(y, x.type));
}

void ConvertMaxRoiPool(NodeImport& node) {
  const std::vector<int64_t> size = node.IntList("pooled_shape");
  const auto fits = [](int64_t bins) { return bins >= 1 && bins <= (1 << 16); };
  if (size.size() != 2 || !std::ranges::all_of(size, fits)) {
    node.Refuse("has a pooled_shape that is not two sizes");
  }
  const OnnxBlob x = node.In(0);
  const OnnxBlob y = node.Add("ROIPooling", {x, node.In(1)}, [&](LayerParameter* layer) {
    ROIPoolingParameter* param = layer->mutable_roi_pooling_param();
    param->set_pooled_h(static_cast<uint32_t>(size[0]));
    param->set_pooled_w(static_cast<uint32_t>(size[1]));
    if (node.HasAttribute("spatial_scale"))
      param->set_spatial_scale(node.Float("spatial_scale", 1));
  });
  node.Output(0, y);
}

}  // namespace

void AddSamplingConverters(ConverterTable* table) {
  (*table)["Resize"] = ConvertResize;
  (*table)["Upsample"] = ConvertResize;
  (*table)["GridSample"] = ConvertGridSample;
  (*table)["RoiAlign"] = ConvertRoiAlign;
  (*table)["MaxRoiPool"] = ConvertMaxRoiPool;
}

}  // namespace crema
