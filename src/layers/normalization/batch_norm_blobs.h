// Conversion of BatchNorm blobs, as the various Caffes write them.
#pragma once

#include <vector>

#include "graph/layer.h"

namespace crema {

// Role of blob 0 if the first two blobs are averages (NVCaffe's scale_bias), and if they are sums
// that the factor divides (BVLC).
inline constexpr const char* kMeanAverage = "mean";
inline constexpr const char* kMeanSum = "mean sum";

// Converts the blobs of one layer to the order and meaning of info.parameters:
//   BVLC         mean sum, variance sum, factor
//   NVCaffe      mean, variance, 1, scale, bias     (scale_bias: true)
//   DIGITS       scale, bias, mean, variance, one reserved value     (old NVCaffe)
// A layer with scale and bias reads a file without them as scale 1 and bias 0. A layer without them
// reads a file with them only if they are 1 and 0; otherwise throws kInvalidArgument, since they
// would be lost. Does nothing for other numbers of blobs.
void AdaptBatchNormBlobs(const LayerParameter& written, const LayerInfo& info,
                         std::vector<BlobProto>* blobs);

}  // namespace crema
