#include "inference/region_head.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "inference/image_model.h"
#include "inference/model_parts.h"
#include "math/boxes.h"

namespace crema {
namespace {

constexpr int kSizes = 2;  // bottom of Proposal

// Null: there is none, or several.
const LayerParameter* FindProposal(const NetParameter& net) {
  std::set<std::string> inputs;
  const LayerParameter* found = nullptr;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "Input") inputs.insert(layer.top().begin(), layer.top().end());
    const bool proposes = layer.type() == "Proposal" && layer.bottom_size() > kSizes &&
                          layer.top_size() > 0 && inputs.contains(layer.bottom(kSizes));
    if (!proposes) continue;
    if (found != nullptr) return nullptr;
    found = &layer;
  }
  return found;
}

// Returns the output of the net that has the regions; empty: none.
std::string FindRegions(const NetParameter& net, const LayerParameter& proposal) {
  std::set<std::string> read;
  std::vector<std::string> names = {proposal.top(0)};
  for (const LayerParameter& layer : net.layer()) {
    read.insert(layer.bottom().begin(), layer.bottom().end());
    if (layer.type() != "Split" || layer.bottom_size() != 1 || layer.bottom(0) != proposal.top(0)) {
      continue;
    }
    names.insert(names.end(), layer.top().begin(), layer.top().end());
  }
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return !read.contains(name); });
  return found == names.end() ? "" : *found;
}

// `seen`: blobs and layers that were looked at, as paths may join again.
bool MovedFrom(const NetParameter& net, const std::string& blob, std::string_view type, int before,
               std::set<std::pair<std::string, int>>* seen) {
  if (!seen->emplace(blob, before).second) return false;
  constexpr std::string_view kMoves[] = {"Concat", "Flatten", "Permute", "Reshape", "Slice"};
  for (int i = before; i-- > 0;) {
    const LayerParameter& layer = net.layer(i);
    if (std::ranges::find(layer.top(), blob) == layer.top().end()) continue;
    if (layer.type() == type) return true;
    return std::ranges::find(kMoves, layer.type()) != std::end(kMoves) &&
           std::ranges::any_of(layer.bottom(), [&](const std::string& from) {
             return MovedFrom(net, from, type, i, seen);
           });
  }
  return false;
}

}  // namespace

bool IsMovedFrom(const NetParameter& net, const std::string& blob, std::string_view type) {
  std::set<std::pair<std::string, int>> seen;
  return MovedFrom(net, blob, type, net.layer_size(), &seen);
}

std::string FindSizesInput(const NetParameter& net) {
  const LayerParameter* proposal = FindProposal(net);
  return proposal == nullptr ? "" : proposal->bottom(kSizes);
}

void SetSizes(int64_t height, int64_t width, double scale, const TensorView& sizes) {
  const std::span<float> values = sizes.span<float>();
  for (size_t i = 0; i + 3 <= values.size(); i += 3) {
    values[i] = static_cast<float>(height);
    values[i + 1] = static_cast<float>(width);
    values[i + 2] = static_cast<float>(scale);
  }
}

void SetSizesIfThose(const Model& model, const std::string& input, const TensorView& value) {
  if (input != FindSizesInput(model.parts().plan->written)) return;
  const auto image = std::ranges::find_if(model.inputs(), [&](const BlobInfo& blob) {
    return blob.name != input && blob.shape.size() == 4;
  });
  if (image != model.inputs().end()) SetSizes(image->shape[2], image->shape[3], 1, value);
}

void PrepareRegionNet(NetFile* net, ModelCard* card) {
  const LayerParameter* proposal = FindProposal(net->net);
  if (proposal == nullptr) return;
  if (FindRegions(net->net, *proposal).empty()) {
    const std::string regions = proposal->top(0);
    LayerParameter* output = net->net.add_layer();
    output->set_name(StrCat(regions, "_output"));
    output->set_type("Split");
    output->add_bottom(regions);
    output->add_top(output->name());
  }
  if (card->preprocessing.fit != ImageFit::kStretch) return;
  card->preprocessing.fit = ImageFit::kReshape;
  card->preprocessing.resize_height = 600;
  card->preprocessing.resize_width = 1000;
}

std::optional<RegionHead> RegionHead::Find(const ImageModel& model) {
  const NetParameter& net = model.model().parts().plan->written;
  const LayerParameter* proposal = FindProposal(net);
  if (proposal == nullptr) return std::nullopt;
  const std::string regions = FindRegions(net, *proposal);
  if (regions.empty()) return std::nullopt;
  const int64_t rows = model.OutputShape(regions, 1)[0];
  std::vector<std::string> scores, boxes;
  for (const BlobInfo& blob : model.model().outputs()) {
    const Shape shape = model.OutputShape(blob.name, 1);
    const bool of_regions = blob.dtype == DType::kF32 && shape.axes() >= 2 && shape[0] == rows &&
                            shape.count(2) == 1 && !IsMovedFrom(net, blob.name, "Proposal") &&
                            blob.name != regions;
    if (!of_regions) continue;
    (IsMovedFrom(net, blob.name, "Softmax") ? scores : boxes).push_back(blob.name);
  }
  if (scores.size() != 1 || boxes.size() != 1) return std::nullopt;
  const int64_t classes = model.OutputShape(scores[0], 1)[1];
  const int64_t numbers = model.OutputShape(boxes[0], 1)[1];
  if (classes < 2 || (numbers != 4 * classes && numbers != 8)) return std::nullopt;
  RegionHead head;
  head.outputs_ = {regions, scores[0], boxes[0]};
  head.classes_ = static_cast<int>(classes);
  head.one_box_ = numbers != 4 * classes;
  return head;
}

std::string RegionHead::Explain(const ImageModel& model) {
  std::vector<std::string> outputs;
  for (const BlobInfo& blob : model.model().outputs()) {
    outputs.push_back(StrCat("'", blob.name, "' ", ToString(model.OutputShape(blob.name, 1))));
  }
  return StrCat(
      "a layer Proposal of this net proposes regions, so that its outputs are the R regions (R x "
      "5), their scores of C classes (R x C, from a Softmax) and their boxes (R x 4C, or R x 8 for "
      "all classes); it has ",
      Join(outputs, ", "));
}

std::vector<HeadObject> RegionHead::Decode(std::span<const std::span<const float>> values,
                                           int height, int width, const ImagePlacement& place,
                                           double least,
                                           const std::optional<double>& overlap) const {
  const auto classes = static_cast<size_t>(classes_);
  const size_t numbers = one_box_ ? 8 : 4 * classes;
  const size_t rows = values[0].size() / 5;
  if (values[1].size() != rows * classes || values[2].size() != rows * numbers) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net proposed ", rows, " regions, but '", outputs_[1], "' has ",
                values[1].size(), " values and '", outputs_[2], "' ", values[2].size()));
  }
  std::vector<HeadObject> found;
  for (size_t r = 0; r < rows; ++r) {
    const float* region = values[0].data() + 5 * r + 1;  // after the index of the image
    const auto x = [&](int k) { return (double{region[k]} - place.left) * width / place.width; };
    const auto y = [&](int k) { return (double{region[k]} - place.top) * height / place.height; };
    const Box prior{x(0), y(1), x(2) + 1, y(3) + 1};  // the last pixels are part of it
    for (size_t c = 1; c < classes; ++c) {
      const double score = values[1][r * classes + c];
      const float* o = values[2].data() + r * numbers + 4 * (one_box_ ? 1 : c);
      if (!(score > least)) continue;
      const Box box =
          crema::Decode(BoxCode::kCenterSize, {o[0], o[1], o[2], o[3]}, prior, {1, 1, 1, 1});
      if (!std::isfinite(box.xmin + box.ymin + box.xmax + box.ymax)) continue;
      found.push_back({static_cast<int>(c), score, Clip(box, width - 1, height - 1)});
    }
  }
  constexpr double kOverlap = 0.3;
  return KeepBest(std::move(found), overlap.value_or(kOverlap), BoxUnits::kPixels, -1);
}

}  // namespace crema
