// Layers that move elements, and those that make blobs.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "crema.pb.h"
#include "layers/shape/pad.h"
#include "onnx/export_windows.h"

namespace crema {
namespace {

void Identity(LayerExport& e) { e.out.assign(e.info.outputs.size(), e.in[0]); }

void Silence(LayerExport& e) { e.out.clear(); }

void Reshape(LayerExport& e) { e.out = {e.Reshape(e.in[0], e.out_shape())}; }

void Concat(LayerExport& e) {
  const ConcatParameter& p = e.param.concat_param();
  const int64_t axis = p.has_concat_dim() ? static_cast<int32_t>(p.concat_dim()) : p.axis();
  e.out = {e.Add("Concat", e.in, {{"axis", e.shape().CanonicalAxis(axis)}})};
}

void Crop(LayerExport& e) {
  const CropParameter& p = e.param.crop_param();
  const int first = e.shape().CanonicalAxis(p.axis());
  std::vector<int64_t> begins, ends, axes;
  for (int a = first; a < e.shape().axes(); ++a) {
    const int64_t offset =
        p.offset_size() == 0 ? 0 : p.offset(p.offset_size() == 1 ? 0 : a - first);
    if (offset == 0 && e.out_shape()[a] == e.shape()[a]) continue;
    axes.push_back(a);
    begins.push_back(offset);
    ends.push_back(offset + e.out_shape()[a]);
  }
  e.out = {axes.empty() ? e.in[0]
                        : e.Add("Slice", {e.in[0], e.graph.Ints(begins), e.graph.Ints(ends),
                                          e.graph.Ints(axes)})};
}

void Filter(LayerExport& e) {
  const size_t last = e.in.size() - 1;
  const std::string selector =
      e.Reshape(e.in[last], e.shape(last), Shape{e.shape(last).count()}, e.open[last]);
  const std::string keep = e.Add("Not", {e.Add("Equal", {selector, e.graph.Scalar(0)})});
  for (size_t i = 0; i < last; ++i) {
    e.out.push_back(e.Add("Compress", {e.in[i], keep}, {{"axis", 0}}));
  }
}

const char* PadModeOf(const LayerExport& e) {
  switch (e.param.pad_param().mode()) {
    case PadParameter::CONSTANT:
      return "constant";
    case PadParameter::REFLECT:
      return "reflect";
    case PadParameter::REPLICATE:
      return "edge";
    default:
      if (e.graph.opset() < 19) e.Refuse("mode WRAP needs opset 19");
      return "wrap";
  }
}

// Elements are cut off first, where a pad is negative.
void Pad(LayerExport& e) {
  const PadParameter& p = e.param.pad_param();
  const int first = PadAxis(e.layer, e.shape()), axes = e.shape().axes();
  std::vector<int64_t> pads(static_cast<size_t>(2 * axes), 0), begins, ends, cut;
  bool some = false;
  for (int a = first; a < axes; ++a) {
    const int64_t before = PadBefore(e.layer, a - first), after = PadAfter(e.layer, a - first);
    pads[static_cast<size_t>(a)] = std::max<int64_t>(before, 0);
    pads[static_cast<size_t>(a) + static_cast<size_t>(axes)] = std::max<int64_t>(after, 0);
    some = some || before > 0 || after > 0;
    if (before >= 0 && after >= 0) continue;
    begins.push_back(std::max<int64_t>(-before, 0));
    ends.push_back(e.shape()[a] + std::min<int64_t>(after, 0));
    cut.push_back(a);
  }
  std::string x = e.in[0];
  if (!cut.empty()) {
    x = e.Add("Slice", {x, e.graph.Ints(begins), e.graph.Ints(ends), e.graph.Ints(cut)});
  }
  if (some) {
    std::vector<std::string> inputs = {x, e.graph.Ints(pads)};
    if (p.mode() == PadParameter::CONSTANT) inputs.push_back(e.graph.Scalar(p.value()));
    x = e.Add("Pad", inputs, {{"mode", PadModeOf(e)}});
  }
  e.out = {x};
}

// `given` axes first, the others in their order.
void Order(LayerExport& e, std::vector<int64_t> given) {
  for (int64_t& axis : given) axis = e.shape().CanonicalAxis(axis);
  for (const int64_t axis : Range(0, e.shape().axes())) {
    if (std::ranges::find(given, axis) == given.end()) given.push_back(axis);
  }
  e.out = {e.Transpose(e.in[0], given)};
}

void Permute(LayerExport& e) {
  const auto& order = e.param.permute_param().order();
  Order(e, {order.begin(), order.end()});
}

void Transpose(LayerExport& e) {
  const auto& dims = e.param.transpose_param().dim();
  if (dims.empty()) return Permute(e);
  Order(e, {dims.begin(), dims.end()});
}

// With s the stride and c = C / s^2: (k, j, a, i, b) of c x H x s x W x s becomes (a, b, k, j, i),
// or with `reverse` the other way around.
void Reorg(LayerExport& e) {
  const Shape& x = e.shape();
  const int64_t s = e.param.reorg_param().stride();
  const int64_t c = x[1] / (s * s);
  const bool reverse = e.param.reorg_param().reverse();
  const Shape pixels{x[0], c, x[2], s, x[3], s};
  const Shape channels{x[0], s, s, c, x[2], x[3]};
  const Shape& from = reverse ? channels : pixels;
  const Shape& to = reverse ? pixels : channels;
  const std::vector<int64_t> order =
      reverse ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  const std::string split = e.Reshape(e.in[0], from);
  e.out = {e.Reshape(e.Transpose(split, order), to, e.out_shape(), e.open[0])};
}

void ShuffleChannel(LayerExport& e) {
  const Shape& x = e.shape();
  const int64_t group = e.param.shuffle_channel_param().has_group()
                            ? int64_t{e.param.shuffle_channel_param().group()}
                            : 1;
  const Shape split{x[0], group, x[1] / group, x.count(2)};
  const Shape shuffled{x[0], x[1] / group, group, x.count(2)};
  const std::string y = e.Transpose(e.Reshape(e.in[0], split), {0, 2, 1, 3});
  e.out = {e.Reshape(y, shuffled, x, e.open[0])};
}

void Slice(LayerExport& e) {
  const SliceParameter& p = e.param.slice_param();
  const int axis =
      e.shape().CanonicalAxis(p.has_slice_dim() ? static_cast<int32_t>(p.slice_dim()) : p.axis());
  std::vector<int64_t> sizes;
  for (const BlobSpec& output : e.info.outputs) sizes.push_back(output.shape[axis]);
  if (sizes.size() == 1) return Identity(e);
  e.out = e.graph.AddMany("Split", {e.in[0], e.graph.Ints(sizes)}, sizes.size(), {{"axis", axis}});
}

void Tile(LayerExport& e) {
  const TileParameter& p = e.param.tile_param();
  std::vector<int64_t> repeats(p.repeats().begin(), p.repeats().end());
  if (repeats.empty()) {
    repeats = OnAxis(e.shape().axes(), e.shape().CanonicalAxis(p.axis()), p.tiles());
  }
  e.out = {e.Add("Tile", {e.in[0], e.graph.Ints(repeats)})};
}

// Sizes that stay are 1, which keeps them.
void Expand(LayerExport& e) {
  if (e.in.size() > 1) {
    e.out = {e.Add("Expand", {e.in[0], e.Add("Shape", {e.in[1]})})};
    return;
  }
  std::vector<int64_t> sizes = DimsOf(e.out_shape());
  const int missing = e.out_shape().axes() - e.shape().axes();
  for (int a = 0; a < e.shape().axes(); ++a) {
    int64_t& size = sizes[static_cast<size_t>(a) + static_cast<size_t>(missing)];
    if (size == e.shape()[a]) size = 1;
  }
  e.out = {e.Add("Expand", {e.in[0], e.graph.Ints(sizes)})};
}

void Reverse(LayerExport& e) {
  constexpr int64_t kBeforeFirst = std::numeric_limits<int32_t>::min();
  const int axis = e.shape().CanonicalAxis(e.param.reverse_param().axis());
  e.out = {e.Add("Slice", {e.in[0], e.graph.Ints({-1}), e.graph.Ints({kBeforeFirst}),
                           e.graph.Ints({axis}), e.graph.Ints({-1})})};
}

void ContinuationIndicator(LayerExport& e) {
  std::vector<float> first(static_cast<size_t>(e.out_shape()[0]), 1);
  first[0] = 0;
  const std::string column = e.graph.Floats({e.out_shape()[0], 1}, first);
  e.out = {e.Add("Expand", {column, e.graph.Ints(DimsOf(e.out_shape()))})};
}

// Filled anew in each pass; only constants are the same each time.
void DummyData(LayerExport& e) {
  const DummyDataParameter& p = e.param.dummy_data_param();
  for (size_t o = 0; o < e.info.outputs.size(); ++o) {
    const int at = p.data_filler_size() == 1 ? 0 : static_cast<int>(o);
    const float value = p.data_filler_size() == 0 ? 0 : p.data_filler(at).value();
    if (p.data_filler_size() > 0 && p.data_filler(at).type() != "constant") {
      e.Refuse(std::string("its filler '") + p.data_filler(at).type() +
               "' draws other numbers in each pass; make the blob an Input");
    }
    const std::vector<float> one = {value};
    const std::string shape = e.graph.Ints(DimsOf(e.out_shape(o)));
    e.out.push_back(e.Add("Expand", {e.graph.Floats({}, one), shape}));
  }
}

void PixelsToFloat(LayerExport& e) {
  const TransformationParameter& p = e.param.transform_param();
  if (e.in.size() > 1) e.Refuse("only plans give it placements");
  if (p.has_mean_file()) e.Refuse("it reads the file mean_file; give mean_value instead");
  std::string x = e.Transpose(e.ToFloat(e.in[0]), {0, 3, 1, 2});
  if (p.mean_value_size() > 0) {
    const std::vector<float> mean(p.mean_value().begin(), p.mean_value().end());
    x = e.Add("Sub", {x, e.graph.Floats({static_cast<int64_t>(mean.size()), 1, 1}, mean)});
  }
  e.out = {e.Affine(x, p.scale(), 0)};
}

}  // namespace

std::string ExportPad(LayerExport* e, const std::string& x, int axes, int first,
                      const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                      float value) {
  std::vector<int64_t> pads(static_cast<size_t>(2 * axes), 0);
  bool some = false;
  for (size_t a = 0; a < before.size(); ++a) {
    pads[static_cast<size_t>(first) + a] = before[a];
    pads[static_cast<size_t>(axes + first) + a] = after[a];
    some = some || before[a] != 0 || after[a] != 0;
  }
  return some ? e->Add("Pad", {x, e->graph.Ints(pads), e->graph.Scalar(value)}) : x;
}

void AddShapeEmitters(EmitterTable* table) {
  table->insert({
      {"CheckWhole", Identity},
      {"Concat", Concat},
      {"ContinuationIndicator", ContinuationIndicator},
      {"Crop", Crop},
      {"DummyData", DummyData},
      {"Expand", Expand},
      {"Filter", Filter},
      {"Flatten", Reshape},
      {"Pad", Pad},
      {"Permute", Permute},
      {"PixelsToFloat", PixelsToFloat},
      {"Reorder", Identity},
      {"Reorg", Reorg},
      {"Reshape", Reshape},
      {"Reverse", Reverse},
      {"ShuffleChannel", ShuffleChannel},
      {"Silence", Silence},
      {"Slice", Slice},
      {"Split", Identity},
      {"Tile", Tile},
      {"Transpose", Transpose},
  });
}

}  // namespace crema
