// Blobs of BatchNorm layers, as the various Caffes write them.
#pragma once

#include <vector>

#include "graph/layer.h"

namespace crema {

// Role of blob 0 where the layer keeps averages in its first two blobs (NVCaffe's scale_bias), and
// where it keeps sums that the factor divides (BVLC).
inline constexpr const char* kMeanAverage = "mean";
inline constexpr const char* kMeanSum = "mean sum";

// Brings the blobs of one layer into the order and meaning of info.learned:
//   BVLC         mean sum, variance sum, factor
//   NVCaffe      mean, variance, 1, scale, bias     (scale_bias: true)
//   DIGITS       scale, bias, mean, variance, one reserved value     (old NVCaffe)
// A layer with scale and bias takes a file without them as scale 1 and bias 0. The reverse only
// where the file's are 1 and 0; otherwise throws kInvalidArgument, since they would be lost. Blobs
// of unknown number are left as they are.
void AdaptBatchNormBlobs(const LayerParameter& written, const LayerInfo& info,
                         std::vector<BlobProto>* blobs);

}  // namespace crema
