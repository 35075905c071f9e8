#include "weights/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "common/text_table.h"
#include "core/strings.h"
#include "format/blob_proto.h"

namespace crema::tools {
namespace {

struct Largest {
  double absolute = 0;
  double relative = 0;
  int64_t beyond = 0;  // numbers that differ by more than the tolerance
};

void Add(double a, double b, const WeightsTolerance& tolerance, Largest* largest) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  const double larger = std::max(std::abs(a), std::abs(b));
  double difference = std::abs(a - b);
  double relative = difference / larger;
  const bool is_finite = std::isfinite(difference);
  if (!is_finite) {
    difference = std::numeric_limits<double>::infinity();
    relative = difference;
  }
  largest->absolute = std::max(largest->absolute, difference);
  largest->relative = std::max(largest->relative, relative);
  const bool is_within = difference <= tolerance.absolute + tolerance.relative * larger;
  if (!is_finite || !is_within) ++largest->beyond;
}

Largest LargestDifference(const BlobProto& a, const BlobProto& b,
                          const WeightsTolerance& tolerance) {
  const std::vector<double> first = ValuesOf(a);
  const std::vector<double> second = ValuesOf(b);
  Largest largest;
  for (size_t i = 0; i < first.size(); ++i) Add(first[i], second[i], tolerance, &largest);
  return largest;
}

// Returns a row if the blobs differ, else nothing.
TextRow CompareBlobs(const LayerParameter& a, const LayerParameter& b, int index,
                     const WeightsTolerance& tolerance) {
  const std::string number = StrCat(index);
  const bool in_a = index < a.blobs_size();
  const bool in_b = index < b.blobs_size();
  if (!in_a || !in_b) {
    return {a.name(), number, StrCat("only in the ", in_a ? "first" : "second", " file")};
  }
  const BlobProto& first = a.blobs(index);
  const BlobProto& second = b.blobs(index);
  // HDF5 leaves out what another layer owns; that layer is compared.
  if (DataCount(first) == 0 || DataCount(second) == 0) return {};
  if (ShapeOf(first) != ShapeOf(second)) {
    return {a.name(), number, StrCat(ToString(ShapeOf(first)), " and ", ToString(ShapeOf(second)))};
  }
  const Largest largest = LargestDifference(first, second, tolerance);
  if (largest.beyond == 0) return {};
  return {a.name(),
          number,
          ToString(ShapeOf(first)),
          StrCat(largest.absolute),
          StrCat(largest.relative),
          StrCat(largest.beyond)};
}

std::map<std::string, const LayerParameter*> ByName(const StoredWeights& weights) {
  std::map<std::string, const LayerParameter*> layers;
  for (const LayerParameter& layer : weights.net.layer()) layers[layer.name()] = &layer;
  return layers;
}

}  // namespace

WeightsDifference CompareWeights(const StoredWeights& a, const StoredWeights& b,
                                 const WeightsTolerance& tolerance) {
  std::vector<TextRow> rows = {{"layer", "blob", "shape", "absolute", "relative", "numbers"}};
  const auto of_a = ByName(a);
  const auto of_b = ByName(b);
  int64_t blobs = 0;
  for (const LayerParameter& layer : a.net.layer()) {
    const auto other = of_b.find(layer.name());
    if (other == of_b.end()) {
      rows.push_back({layer.name(), "", "only in the first file"});
      continue;
    }
    const int count = std::max(layer.blobs_size(), other->second->blobs_size());
    blobs += count;
    for (int i = 0; i < count; ++i) {
      TextRow row = CompareBlobs(layer, *other->second, i, tolerance);
      if (!row.empty()) rows.push_back(std::move(row));
    }
  }
  for (const LayerParameter& layer : b.net.layer()) {
    if (!of_a.contains(layer.name())) rows.push_back({layer.name(), "", "only in the second file"});
  }
  const size_t differ = rows.size() - 1;
  if (differ == 0) return {StrCat("equal: ", blobs, " blobs\n"), false};
  return {StrCat(AlignedColumns(rows, 3), differ, " differences, in ", blobs, " common blobs\n"),
          true};
}

}  // namespace crema::tools
