#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/memory_feed.h"
#include "data/expect_error.h"
#include "support/net.h"

namespace crema {
namespace {

using testing::ExpectError;

class MemoryDataTest : public ::testing::Test {
 protected:
  void Build(const std::string& transform = "") {
    const auto plan =
        test::PlanText(StrCat("layer { name: 'feed' type: 'MemoryData' top: 'data' top: 'label' "
                              "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } "
                              "transform_param { ",
                              transform, " } }"));
    session_ = std::make_unique<Session>(plan, Weights::Make(*plan, 1), ExecContext(1));
    feed_ = dynamic_cast<MemoryFeed*>(session_->MutableState("feed"));
    ASSERT_NE(feed_, nullptr);
  }

  std::vector<float> Data() { return test::ValuesOf(session_->Data("data")); }
  std::vector<float> Labels() { return test::ValuesOf(session_->Data("label")); }

  std::unique_ptr<Session> session_;
  MemoryFeed* feed_ = nullptr;
};

Image FlatImage(int height, int width, uint8_t value) {
  const auto count = static_cast<size_t>(height * width);
  return {.channels = 1,
          .height = height,
          .width = width,
          .pixels = std::vector<uint8_t>(count, value)};
}

TEST_F(MemoryDataTest, ArraysAreTakenBatchByBatchAndWrap) {
  Build("scale: 2");  // not applied to arrays
  std::vector<float> data(16);
  std::iota(data.begin(), data.end(), 0.f);
  const std::vector<float> labels{5, 6, 7, 8};
  feed_->SetArrays(data, labels);
  session_->Forward();
  EXPECT_EQ(Data(), std::vector<float>(data.begin(), data.begin() + 8));
  EXPECT_EQ(Labels(), (std::vector<float>{5, 6}));
  session_->Forward();
  EXPECT_EQ(Labels(), (std::vector<float>{7, 8}));
  session_->Forward();
  EXPECT_EQ(Labels(), (std::vector<float>{5, 6}));
  EXPECT_EQ(session_->state(0)->EpochSize(), 4);
}

TEST_F(MemoryDataTest, SamplesAreNamedByTheirNumber) {
  Build();
  const std::vector<float> data(16);
  const std::vector<float> labels{5, 6, 7, 8};
  feed_->SetArrays(data, labels);
  session_->Forward();
  session_->Forward();
  EXPECT_EQ(session_->state(0)->SampleName(1), "image 3 of those handed over");
  EXPECT_EQ(session_->state(0)->SampleName(2), "");
}

TEST_F(MemoryDataTest, ForwardWithoutDataIsAnError) {
  Build();
  ExpectError(ErrorCode::kInvalidArgument, "layer \"feed\": has no data",
              [&] { session_->Forward(); });
  EXPECT_EQ(session_->MutableState("nobody"), nullptr);
}

TEST_F(MemoryDataTest, ArraysMustFit) {
  Build();
  const std::vector<float> data(12), three(3), two(2);
  ExpectError(ErrorCode::kInvalidArgument, "3 samples are not a multiple of the batch size 2",
              [&] { feed_->SetArrays(data, three); });
  ExpectError(ErrorCode::kInvalidArgument, "2 labels and 12 values, but a sample of 1x2x2 has 4",
              [&] { feed_->SetArrays(data, two); });
  ExpectError(ErrorCode::kInvalidArgument, "0 samples", [&] { feed_->SetArrays({}, {}); });
}

TEST_F(MemoryDataTest, ImagesAreTransformed) {
  Build("crop_size: 2 mean_value: 3 scale: 2");
  const std::vector<Image> images{FlatImage(4, 4, 10), FlatImage(3, 2, 20)};
  const std::vector<int> labels{1, 2};
  feed_->AddImages(images, labels);
  ExpectError(ErrorCode::kInvalidArgument, "have not been used yet",
              [&] { feed_->AddImages(images, labels); });
  session_->Forward();
  EXPECT_EQ(Data(), (std::vector<float>{14, 14, 14, 14, 34, 34, 34, 34}));
  EXPECT_EQ(Labels(), (std::vector<float>{1, 2}));
  feed_->AddImages(images, labels);
}

TEST_F(MemoryDataTest, DatumsAreTransformed) {
  Build("mean_value: 1");
  Datum datum;
  datum.set_channels(1);
  datum.set_height(2);
  datum.set_width(2);
  datum.set_label(9);
  for (const float value : {1.5f, 2.f, 3.f, 4.f}) datum.add_float_data(value);
  const std::vector<Datum> datums{datum, datum};
  feed_->AddDatums(datums);
  session_->Forward();
  EXPECT_EQ(Data(), (std::vector<float>{0.5, 1, 2, 3, 0.5, 1, 2, 3}));
  EXPECT_EQ(Labels(), (std::vector<float>{9, 9}));
}

TEST_F(MemoryDataTest, ImagesThatDoNotFitAreNamed) {
  Build();
  const std::vector<int> labels{1, 2};
  const std::vector<Image> large{FlatImage(2, 2, 1), FlatImage(3, 2, 20)};
  ExpectError(ErrorCode::kInvalidArgument,
              "image 1 of those handed over is 1x3x2, but memory_data_param says 1x2x2",
              [&] { feed_->AddImages(large, labels); });
  std::vector<Image> cut{FlatImage(2, 2, 1), FlatImage(2, 2, 1)};
  cut[0].pixels.pop_back();
  ExpectError(ErrorCode::kInvalidArgument, "image 0 does not have as many pixels",
              [&] { feed_->AddImages(cut, labels); });
  ExpectError(ErrorCode::kInvalidArgument, "2 images and 1 labels",
              [&] { feed_->AddImages(large, std::span(labels).first(1)); });
  ExpectError(ErrorCode::kInvalidArgument, "has no data", [&] { session_->Forward(); });
}

}  // namespace
}  // namespace crema
