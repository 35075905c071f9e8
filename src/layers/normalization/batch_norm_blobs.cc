#include "layers/normalization/batch_norm_blobs.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "layers/parameter_shapes.h"

namespace crema {
namespace {

enum Blob : size_t { kMean, kVariance, kFactor, kScale, kBias };
constexpr size_t kPlain = 3;
constexpr size_t kWithBias = 5;

std::vector<double> ValuesOf(const BlobProto& blob) {
  Tensor tensor({DataCount(blob)}, DType::kF64);
  CopyTo(blob, tensor.view());
  const std::span<const double> values = tensor.view().span<double>();
  return {values.begin(), values.end()};
}

BlobProto BlobOf(std::vector<double> values, const Shape& shape) {
  Tensor tensor(shape, DType::kF32);
  std::ranges::transform(values, tensor.view().data<float>(),
                         [](double value) { return static_cast<float>(value); });
  BlobProto blob;
  CopyFrom(tensor.view(), &blob);
  return blob;
}

// Detects DIGITS' order: its last blob has a single value, and its third does not.
bool IsDigitsOrder(const std::vector<BlobProto>& blobs) {
  return blobs.size() == kWithBias && DataCount(blobs[4]) == 1 && DataCount(blobs[2]) != 1;
}

bool AllAre(const BlobProto& blob, double value) {
  return std::ranges::all_of(ValuesOf(blob), [&](double v) { return v == value; });
}

void DropScaleAndBias(const LayerParameter& written, std::vector<BlobProto>* blobs) {
  const bool bias_is_zero = blobs->size() <= kBias || AllAre((*blobs)[kBias], 0);
  if (!AllAre((*blobs)[kScale], 1) || !bias_is_zero) {
    Fail(ErrorCode::kInvalidArgument,
         "the file has a learned scale and bias for this BatchNorm, which the net does not: set "
         "batch_norm_param { scale_bias: true }",
         {.layer = written.name()});
  }
  blobs->resize(kPlain);
}

void AddScaleAndBias(const LayerInfo& info, std::vector<BlobProto>* blobs) {
  for (size_t i = blobs->size(); i < info.parameters.size(); ++i) {
    const Shape& shape = info.parameters[i].shape;
    blobs->push_back(BlobOf(
        std::vector<double>(static_cast<size_t>(shape.count()), i == kScale ? 1.0 : 0.0), shape));
  }
}

// Converts sums to averages. A factor of 0 means that there are none yet.
void DivideByFactor(std::vector<BlobProto>* blobs) {
  const std::vector<double> factor = ValuesOf((*blobs)[kFactor]);
  if (factor.size() != 1 || factor[0] == 0 || factor[0] == 1) return;
  for (size_t i : {kMean, kVariance}) {
    std::vector<double> values = ValuesOf((*blobs)[i]);
    for (double& value : values) value /= factor[0];
    const auto count = static_cast<int64_t>(values.size());
    (*blobs)[i] = BlobOf(std::move(values), {count});
  }
  (*blobs)[kFactor] = BlobOf({1}, {1});
}

}  // namespace

void AdaptBatchNormBlobs(const LayerParameter& written, const LayerInfo& info,
                         std::vector<BlobProto>* blobs) {
  // A blob without values is stored with the layer that shares it.
  const bool complete =
      std::ranges::all_of(*blobs, [](const BlobProto& blob) { return DataCount(blob) > 0; });
  if (complete && blobs->size() >= kPlain && blobs->size() <= kWithBias) {
    if (IsDigitsOrder(*blobs)) {
      std::rotate(blobs->begin(), blobs->begin() + 2,
                  blobs->end());  // mean, variance, reserved, scale, bias
      (*blobs)[kFactor] = BlobOf({1}, {1});
    }
    if (blobs->size() > info.parameters.size()) DropScaleAndBias(written, blobs);
    AddScaleAndBias(info, blobs);
    if (info.parameters[kMean].role == kMeanAverage) DivideByFactor(blobs);
  }
  GiveParameterShapes(info, blobs);
}

}  // namespace crema
