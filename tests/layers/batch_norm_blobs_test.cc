// Blobs of BatchNorm as BVLC, NVCaffe and DIGITS order them.
#include "layers/normalization/batch_norm_blobs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

BlobProto ProtoOf(const std::vector<float>& values, const std::vector<int64_t>& shape = {}) {
  BlobProto blob;
  for (float value : values) blob.add_data(value);
  if (shape.empty()) blob.mutable_shape()->add_dim(static_cast<int64_t>(values.size()));
  for (int64_t dim : shape) blob.mutable_shape()->add_dim(dim);
  return blob;
}

// Infer's answer for two channels.
LayerInfo InfoOf(const std::string& fields) {
  const LayerType& type = *TestRegistry().Find("BatchNorm");
  const LayerSample sample{.name = "x",
                           .prototxt = "batch_norm_param { " + fields + " }",
                           .inputs = {{.shape = {4, 2, 3, 3}}}};
  return LayerCase(type, sample, DType::kF32).info();
}

std::vector<std::vector<float>> Adapt(const std::string& fields, std::vector<BlobProto> blobs) {
  const LayerInfo info = InfoOf(fields);
  AdaptBatchNormBlobs({}, info, &blobs);
  std::vector<std::vector<float>> values;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (i < info.parameters.size() && DataCount(blobs[i]) == info.parameters[i].shape.count()) {
      EXPECT_TRUE(ShapeMatches(blobs[i], info.parameters[i].shape)) << i;
      CheckBlob(blobs[i]);
    }
    values.emplace_back(blobs[i].data().begin(), blobs[i].data().end());
  }
  return values;
}

using Lists = std::vector<std::vector<float>>;
constexpr const char* kNvidia = "scale_bias: true";

TEST(BatchNormBlobs, BvlcStaysAsItIs) {
  EXPECT_EQ(Adapt("", {ProtoOf({2, 4}), ProtoOf({6, 8}), ProtoOf({2})}),
            (Lists{{2, 4}, {6, 8}, {2}}));
}

TEST(BatchNormBlobs, BvlcBecomesAveragesWithScaleAndBias) {
  EXPECT_EQ(Adapt(kNvidia, {ProtoOf({2, 4}), ProtoOf({6, 8}), ProtoOf({2})}),
            (Lists{{1, 2}, {3, 4}, {1}, {1, 1}, {0, 0}}));
}

TEST(BatchNormBlobs, FactorZeroStaysUntrained) {
  EXPECT_EQ(Adapt(kNvidia, {ProtoOf({0, 0}), ProtoOf({0, 0}), ProtoOf({0})}),
            (Lists{{0, 0}, {0, 0}, {0}, {1, 1}, {0, 0}}));
}

TEST(BatchNormBlobs, NvidiaKeepsOrderAndLosesItsOnes) {
  const std::vector<int64_t> shape = {1, 2, 1, 1};
  EXPECT_EQ(Adapt(kNvidia, {ProtoOf({1, 2}, shape), ProtoOf({3, 4}, shape), ProtoOf({1}),
                            ProtoOf({5, 6}, shape), ProtoOf({7, 8}, shape)}),
            (Lists{{1, 2}, {3, 4}, {1}, {5, 6}, {7, 8}}));
}

TEST(BatchNormBlobs, DigitsOrderIsTurned) {
  EXPECT_EQ(Adapt(kNvidia, {ProtoOf({5, 6}), ProtoOf({7, 8}), ProtoOf({1, 2}), ProtoOf({3, 4}),
                            ProtoOf({0})}),
            (Lists{{1, 2}, {3, 4}, {1}, {5, 6}, {7, 8}}));
}

TEST(BatchNormBlobs, ScaleAndBiasAreDroppedOnlyWhereTheyDoNothing) {
  EXPECT_EQ(
      Adapt("", {ProtoOf({1, 2}), ProtoOf({3, 4}), ProtoOf({1}), ProtoOf({1, 1}), ProtoOf({0, 0})}),
      (Lists{{1, 2}, {3, 4}, {1}}));
  try {
    Adapt("", {ProtoOf({1, 2}), ProtoOf({3, 4}), ProtoOf({1}), ProtoOf({1, 2}), ProtoOf({0, 0})});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("scale_bias: true"), std::string::npos);
  }
}

TEST(BatchNormBlobs, OneChannelIsTakenInTheNewOrder) {
  const LayerInfo info = InfoOf(kNvidia);
  LayerInfo one = info;
  for (ParameterInfo& blob : one.parameters) blob.shape = {1};
  std::vector<BlobProto> blobs = {ProtoOf({1}), ProtoOf({2}), ProtoOf({1}), ProtoOf({4}),
                                  ProtoOf({5})};
  AdaptBatchNormBlobs({}, one, &blobs);
  EXPECT_EQ(blobs[3].data(0), 4);
}

TEST(BatchNormBlobs, OtherNumbersAndEmptyBlobsAreLeftAlone) {
  EXPECT_EQ(Adapt("", {ProtoOf({1, 2})}), (Lists{{1, 2}}));
  EXPECT_EQ(Adapt(kNvidia, {BlobProto(), BlobProto(), BlobProto()}).size(), 3U);
  EXPECT_EQ(Adapt("", {}), Lists{});
}

}  // namespace
}  // namespace crema::test
