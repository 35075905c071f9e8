#include "weights/list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/text_table.h"
#include "core/strings.h"
#include "format/blob_proto.h"

namespace crema::tools {
namespace {

struct Summary {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t finite = 0;
  int64_t others = 0;  // infinite, or no numbers
};

Summary SummaryOf(const BlobProto& blob) {
  Summary summary;
  for (const double value : ValuesOf(blob)) {
    if (!std::isfinite(value)) {
      ++summary.others;
      continue;
    }
    summary.least = std::min(summary.least, value);
    summary.most = std::max(summary.most, value);
    summary.sum += value;
    ++summary.finite;
  }
  return summary;
}

TextRow RowOf(const std::string& layer, int index, const BlobProto& blob,
              const std::string& stored) {
  const std::string number = StrCat(index);
  if (DataCount(blob) == 0) return {layer, number, "of another layer"};
  const Summary summary = SummaryOf(blob);
  TextRow row = {layer, number, ToString(ShapeOf(blob)), stored};
  if (summary.finite > 0) {
    const double mean = summary.sum / static_cast<double>(summary.finite);
    for (const double value : {summary.least, summary.most, mean}) row.push_back(StrCat(value));
  } else {
    row.insert(row.end(), 3, "-");
  }
  if (summary.others > 0) row.push_back(StrCat(summary.others, " not finite"));
  return row;
}

}  // namespace

std::string ListWeights(const StoredWeights& weights) {
  std::vector<TextRow> rows = {{"layer", "blob", "shape", "type", "min", "max", "mean"}};
  int64_t blobs = 0;
  int64_t values = 0;
  for (int l = 0; l < weights.net.layer_size(); ++l) {
    const LayerParameter& layer = weights.net.layer(l);
    const std::vector<std::string>& stored = weights.stored[static_cast<size_t>(l)];
    for (int i = 0; i < layer.blobs_size(); ++i) {
      rows.push_back(RowOf(layer.name(), i, layer.blobs(i), stored[static_cast<size_t>(i)]));
    }
    blobs += layer.blobs_size();
    values += CountOf(layer);
  }
  return StrCat(AlignedColumns(rows, 4), weights.net.layer_size(), " layers, ", blobs, " blobs, ",
                values, " values\n");
}

}  // namespace crema::tools
