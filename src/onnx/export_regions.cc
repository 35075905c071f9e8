// Pooling over regions of images: ROIPooling, ROIAlign, PSROIPooling.
#include <string>
#include <vector>

#include "crema.pb.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

// R x 5.
std::string Regions(LayerExport& e) {
  return e.Reshape(e.in[1], e.shape(1), Shape{e.shape(1)[0], 5}, e.open[1]);
}

void RoiPooling(LayerExport& e) {
  const ROIPoolingParameter& p = e.param.roi_pooling_param();
  const Shape& out = e.out_shape();
  e.out = {e.Add("MaxRoiPool", {e.in[0], Regions(e)},
                 {{"pooled_shape", std::vector<int64_t>{out[2], out[3]}},
                  {"spatial_scale", p.spatial_scale()}})};
}

void RoiAlign(LayerExport& e) {
  const ROIAlignParameter& p = e.param.roi_align_param();
  const Shape& out = e.out_shape();
  const std::string regions = Regions(e);
  const std::string image = e.ToInt(e.Squeeze(e.Slice(regions, 1, 0, 1), {1}));
  OnnxAttributes attributes = {{"output_height", out[2]},
                               {"output_width", out[3]},
                               {"sampling_ratio", int64_t{p.sampling_ratio()}},
                               {"spatial_scale", p.spatial_scale()}};
  // Before opset 16 there is no other way to count places.
  if (e.graph.opset() < 16 && p.aligned()) e.Refuse("aligned needs opset 16");
  if (e.graph.opset() >= 16) {
    attributes.emplace_back("coordinate_transformation_mode",
                            p.aligned() ? "half_pixel" : "output_half_pixel");
  }
  e.out = {e.Add("RoiAlign", {e.in[0], e.Slice(regions, 1, 1, 5), image}, attributes)};
}

// The bins of one axis of all regions, in double precision as the layer computes them.
class Bins {
 public:
  Bins(LayerExport* e, double scale, int64_t bins) : e_(*e), scale_(scale), bins_(bins) {}

  // R x bins x size of 0 and 1: the places of each bin. `low` and `high` are R x 1.
  std::string Mask(const std::string& low, const std::string& high, int64_t size) {
    const std::string start = e_.Add("Mul", {Round(low), Number(scale_)});
    const std::string end =
        e_.Add("Mul", {e_.Add("Add", {Round(high), Number(1)}), Number(scale_)});
    const std::string length = e_.Add("Max", {e_.Add("Sub", {end, start}), Number(0.1)});
    const std::string bin = e_.Add("Div", {length, Number(static_cast<double>(bins_))});
    const std::string first = Limit("Floor", bin, start, 0, size);
    const std::string last = Limit("Ceil", bin, start, 1, size);
    const std::string place = Numbers({1, 1, size}, 0);
    const std::string inside =
        e_.Add("And", {e_.Add("GreaterOrEqual", {place, first}), e_.Add("Less", {place, last})});
    return e_.ToFloat(inside);
  }

 private:
  // first, first + 1, ...: as many as the dimensions hold.
  std::string Numbers(const std::vector<int64_t>& dims, double first) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      const double value = first + static_cast<double>(i);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return e_.graph.Bytes(dims, onnx::TensorProto::DOUBLE, bytes);
  }
  std::string Number(double value) { return Numbers({}, value); }

  // To the nearest whole number, halves away from 0.
  std::string Round(const std::string& x) {
    const std::string up = e_.Add("Floor", {e_.Add("Add", {e_.Add("Abs", {x}), Number(0.5)})});
    return e_.Add("Mul", {e_.Add("Sign", {x}), up});
  }

  // The limit at the beginning (0) or end (1) of each bin: R x bins x 1.
  std::string Limit(const char* round, const std::string& bin, const std::string& start, double at,
                    int64_t size) {
    const std::string offset = e_.Add("Mul", {bin, Numbers({1, bins_}, at)});
    const std::string limit = e_.Add(round, {e_.Add("Add", {offset, start})});
    const std::string inside =
        e_.Add("Clip", {limit, Number(0), Number(static_cast<double>(size))});
    return e_.Unsqueeze(inside, {2});
  }

  LayerExport& e_;
  const double scale_;
  const int64_t bins_;
};

// Sums over bins are products with masks of 0 and 1: first over the rows (of all images, for each
// row of bins), then over the columns.
void PsroiPooling(LayerExport& e) {
  const PSROIPoolingParameter& p = e.param.psroi_pooling_param();
  const Shape& map = e.shape();
  const int64_t n = map[0], h = map[2], w = map[3], g = p.group_size(), c = p.output_dim();
  const std::string regions = Regions(e);
  const std::string exact = e.Add("Cast", {regions}, {{"to", int64_t{onnx::TensorProto::DOUBLE}}});
  const auto column = [&](int64_t i) { return e.Slice(exact, 1, i, i + 1); };
  Bins bins(&e, double{p.spatial_scale()}, g);
  const std::string columns = bins.Mask(column(1), column(3), w);  // R x g x w
  const std::string rows = bins.Mask(column(2), column(4), h);     // R x g x h

  std::vector<float> numbers;
  for (const int64_t i : Range(0, n)) numbers.push_back(static_cast<float>(i));
  const std::string own = e.ToFloat(
      e.Add("Equal", {e.Slice(regions, 1, 0, 1), e.graph.Floats({1, n}, numbers)}));  // R x n
  std::string mask = e.Unsqueeze(e.Transpose(rows, {1, 0, 2}), {2});  // g x R x 1 x h
  mask = e.Add("Mul", {mask, e.Unsqueeze(own, {2})});                 // g x R x n x h
  mask = e.Add("Reshape", {mask, e.graph.Ints({0, 0, n * h})});

  const Shape split{n, c, g, g, h, w};
  std::string x = e.Reshape(e.in[0], map, split, false);
  x = e.Transpose(x, {2, 0, 4, 1, 3, 5});  // row of bins, n, h, c, column of bins, w
  x = e.Add("Reshape", {x, e.graph.Ints({g, n * h, c * g * w})});
  std::string sums = e.Add("MatMul", {mask, x});
  sums = e.Add("Reshape", {sums, e.graph.Ints({0, 0, c, g, w})});
  sums = e.Add("Mul", {sums, e.Unsqueeze(columns, {1})});
  sums = OnnxReduce(&e.graph, "ReduceSum", sums, {4}, false);  // g x R x c x g
  sums = e.Transpose(sums, {1, 2, 0, 3});

  const auto sizes = [&](const std::string& bin_mask) {
    return OnnxReduce(&e.graph, "ReduceSum", bin_mask, {2}, false);  // R x g
  };
  const std::string count =
      e.Add("Mul", {e.Unsqueeze(sizes(rows), {1, 3}), e.Unsqueeze(sizes(columns), {1, 2})});
  // Bins without places have sums of 0.
  e.out = {e.Add("Div", {sums, e.Add("Max", {count, e.graph.Scalar(1)})})};
}

}  // namespace

void AddRegionEmitters(EmitterTable* table) {
  table->insert(
      {{"PSROIPooling", PsroiPooling}, {"ROIAlign", RoiAlign}, {"ROIPooling", RoiPooling}});
}

}  // namespace crema
