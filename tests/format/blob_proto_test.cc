#include "format/blob_proto.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "crema.pb.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;

BlobProto Legacy(int num, int channels, int height, int width) {
  BlobProto proto;
  proto.set_num(num);
  proto.set_channels(channels);
  proto.set_height(height);
  proto.set_width(width);
  return proto;
}

BlobProto Shaped(std::initializer_list<int64_t> dims, int values) {
  BlobProto proto;
  proto.mutable_shape();
  for (int64_t dim : dims) proto.mutable_shape()->add_dim(dim);
  for (int i = 0; i < values; ++i) proto.add_data(static_cast<float>(i) / 2);
  return proto;
}

TEST(BlobProto, LegacyShapeWins) {
  BlobProto proto = Legacy(1, 2, 3, 4);
  proto.mutable_shape()->add_dim(24);
  EXPECT_TRUE(IsLegacyShape(proto));
  EXPECT_EQ(ShapeOf(proto), Shape({1, 2, 3, 4}));
  EXPECT_EQ(ShapeOf(Shaped({5, 6}, 0)), Shape({5, 6}));
  EXPECT_EQ(ShapeOf(BlobProto()), Shape());
}

TEST(BlobProto, LegacyShapeMatchesRightAligned) {
  EXPECT_TRUE(ShapeMatches(Legacy(1, 1, 1, 7), Shape({7})));
  EXPECT_TRUE(ShapeMatches(Legacy(1, 1, 5, 7), Shape({5, 7})));
  EXPECT_TRUE(ShapeMatches(Legacy(2, 3, 5, 7), Shape({2, 3, 5, 7})));
  EXPECT_TRUE(ShapeMatches(Legacy(1, 1, 1, 1), Shape()));
  EXPECT_FALSE(ShapeMatches(Legacy(7, 1, 1, 1), Shape({7})));
  EXPECT_FALSE(ShapeMatches(Legacy(2, 3, 5, 7), Shape({3, 5, 7})));
  EXPECT_FALSE(ShapeMatches(Legacy(1, 2, 3, 4), Shape({1, 1, 2, 3, 4})));
}

TEST(BlobProto, NewShapeMatchesExactlyButForFourAxes) {
  EXPECT_TRUE(ShapeMatches(Shaped({7}, 0), Shape({7})));
  EXPECT_TRUE(ShapeMatches(Shaped({1, 1, 1, 7}, 0), Shape({7})));
  EXPECT_TRUE(ShapeMatches(Shaped({1, 1, 5, 7}, 0), Shape({5, 7})));
  EXPECT_FALSE(ShapeMatches(Shaped({1, 7}, 0), Shape({7})));
  EXPECT_FALSE(ShapeMatches(Shaped({7, 1, 1, 1}, 0), Shape({7})));
  EXPECT_FALSE(ShapeMatches(Shaped({7}, 0), Shape({1, 1, 1, 7})));
}

TEST(BlobProto, ImpossibleShapesAreDataLoss) {
  EXPECT_TRUE(Contains(ErrorOf([] { ShapeOf(Shaped({-1}, 0)); }), "stored shape is damaged"));
  EXPECT_TRUE(Contains(ErrorOf([] { CheckBlob(Shaped({1 << 30, 1 << 30}, 0)); }), "damaged"));
  EXPECT_TRUE(Contains(ErrorOf([] {
                         CheckBlob(Shaped({2, 1 << 20}, 3));
                       }),
                       "a blob of shape 2x1048576 has 3 values instead of 2097152"));
}

TEST(BlobProto, RoundTripOfBothTypes) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    Tensor tensor({2, 3}, dtype);
    Tensor gradient({2, 3}, dtype);
    DispatchFloat(dtype, [&]<typename T>(T) {
      for (int i = 0; i < 6; ++i) tensor.view().data<T>()[i] = T(i) / 3;
      for (int i = 0; i < 6; ++i) gradient.view().data<T>()[i] = T(-i) / 7;
    });
    BlobProto proto = Legacy(1, 1, 1, 1);
    CopyFrom(tensor.view(), &proto);
    CopyDiffFrom(gradient.view(), &proto);
    EXPECT_EQ(ShapeOf(proto), Shape({2, 3}));
    EXPECT_EQ(proto.double_data_size(), dtype == DType::kF64 ? 6 : 0);
    EXPECT_EQ(proto.data_size(), dtype == DType::kF32 ? 6 : 0);
    Tensor back({6}, dtype);
    CopyTo(proto, back.view());
    EXPECT_EQ(std::memcmp(back.view().raw(), tensor.view().raw(), back.view().bytes()), 0);
    CopyDiffTo(proto, back.view());
    EXPECT_EQ(std::memcmp(back.view().raw(), gradient.view().raw(), back.view().bytes()), 0);
  }
}

TEST(BlobProto, DoubleDataIsPreferred) {
  BlobProto proto = Shaped({1}, 1);
  proto.add_double_data(42);
  Tensor tensor({1}, DType::kF32);
  CopyTo(proto, tensor.view());
  EXPECT_EQ(tensor.view().data<float>()[0], 42);
}

TEST(BlobProto, CountMustAgree) {
  Tensor tensor({2, 2}, DType::kF32);
  EXPECT_TRUE(Contains(ErrorOf([&] { CopyTo(Shaped({3}, 3), tensor.view()); }),
                       "the file holds 3 values for a blob of 4 (2x2)"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { CopyDiffTo(Shaped({4}, 4), tensor.view()); }), "holds 0 gradients"));
}

TEST(BlobProto, RawHalvesAreRead) {
  BlobProto proto = Shaped({6}, 0);
  proto.set_raw_data_type(FLOAT16);
  // 1, -2, 0.5, infinity, the smallest subnormal, -0
  proto.set_raw_data(std::string("\x00\x3C\x00\xC0\x00\x38\x00\x7C\x01\x00\x00\x80", 12));
  Tensor tensor({6}, DType::kF32);
  CopyTo(proto, tensor.view());
  const float* values = tensor.view().data<float>();
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], 0.5f);
  EXPECT_EQ(values[3], std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[4], 0x1p-24f);
  EXPECT_TRUE(values[5] == 0 && std::signbit(values[5]));
}

}  // namespace
}  // namespace crema
