// Images that are uploaded to a GPU as bytes: their reports in the plan, errors, and the layer that
// converts them to floats.
#include <cmath>
#include <tuple>
#include <utility>

#include "crema.pb.h"
#include "gpu/uploaded_bytes.h"

namespace crema::test {
namespace {

using UploadedBytesPlan = UploadedBytes;

TEST_F(UploadedBytesPlan, ThePlanSaysWhatGoesUpHow) {
  const std::string set = WriteDrawn(3);
  const std::string net = DataNet(set, "crop_size: 5 mirror: true mean_value: 7");
  const auto plan = PlanText(net, TRAIN, OnGpu());
  const PlannedLayer* floats = FindType(*plan, "PixelsToFloat");
  ASSERT_NE(floats, nullptr);
  EXPECT_EQ(floats->name(), "data_d_floats");
  EXPECT_EQ(plan->values[static_cast<size_t>(floats->outputs[0])].name, "data");
  EXPECT_EQ(SpecOf(*plan, floats->inputs[0]).shape, (Shape{kBatch, 5, 5, 3}));
  EXPECT_EQ(floats->inputs.size(), 2U);
  EXPECT_EQ(plan->written.SerializeAsString(),
            PlanText(net, TRAIN, OnCpu())->written.SerializeAsString());
  // Nothing is mirrored: no placements.
  const auto plain = PlanText(DataNet(set, "crop_size: 5 mean_value: 7"), TRAIN, OnGpu());
  EXPECT_EQ(FindType(*plain, "PixelsToFloat")->inputs.size(), 1U);

  PlanOptions without = OnGpu();
  without.passes.upload_bytes = false;
  PlanOptions as_written = OnGpu();
  as_written.optimize = false;
  for (const PlanOptions& options : {OnCpu(), without, as_written}) {
    EXPECT_FALSE(Uploads(*PlanText(net, TRAIN, options)));
  }
}

TEST_F(UploadedBytesPlan, ThePlanSaysWhyNumbersGoUp) {
  const std::string set = WriteDrawn(3);
  const auto why = [&](const std::string& net, Phase phase = TRAIN) {
    const auto plan = PlanText(net, phase, OnGpu());
    return Uploads(*plan) ? "uploads" : WhyNot(*plan);
  };
  const std::string mixed = DataNet(set, "augment_param { mixup: 0.2 classes: 10 }");
  EXPECT_EQ(why(mixed), "mixup and cutmix mix floating-point values");
  EXPECT_EQ(why(mixed, TEST), "uploads");
  EXPECT_EQ(why(DataNet(Write("floats", {OfFloats(0)}), "")), "the first record holds floats");
  EXPECT_EQ(why("layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { "
                "batch_size: 2 channels: 3 height: 4 width: 4 } }"),
            "a layer of type MemoryData gives numbers only");
  const auto asked = PlanText(DataNet(set, "", "pipeline_param { output: U8 }"), TRAIN, OnGpu());
  EXPECT_EQ(WhyNot(*asked), "the net converts its bytes itself, pipeline_param { output: U8 }");
  EXPECT_EQ(asked->layers.size(), 1U);
}

TEST_F(UploadedBytesPlan, ErrorsAreThoseOfTheCpu) {
  const std::string set = WriteDrawn(3);
  const std::string shapes = Write("shapes", {Drawn(3, 0), Drawn(3, 1), Drawn(3, 2, 12)});
  const std::string mean = StrCat("mean_file: '", WriteMean(3, 8), "'");
  std::vector<std::pair<std::string, std::string>> cases = {
      {DataNet(shapes, "mirror: true"), "is 3x9x12, but the first record is 3x9x13"},
      {DataNet(temp_.File("none"), "mirror: true"), "none"},
      {DataNet(set, "crop_size: 10"), "crop_size is 10"},
      {DataNet(set, "mean_value: 1 mean_value: 2"), "2 entries of mean_value"},
      {DataNet(set, mean), "is 3x8x13, but the image (before cropping) is 3x9x13"},
      {DataNet(set, "mean_file: 'no/such/mean' mirror: true"), "no/such/mean"},
      {DataNet(set, "", "", "top: 'l' top: 'x'"), "wrong number of tops"},
      {DataNet(set, "crop_size: 5 mirror: true") +
           "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
           "num_output: 2 kernel_size: 7 } }",
       "'data' is 3x3x5x5 (from layer \"d\", line 1)"},
      {DataNet(set, "crop_size: 5 mirror: true") +
           "layer { name: 'p' type: 'PixelsToFloat' bottom: 'data' top: 'p' }",
       "from layer \"d\""}};
#ifdef CREMA_HAVE_OPENCV
  const auto images = [](const std::string& transform) {
    return StrCat(
        "layer { name: 'd' type: 'ImageData' top: 'data' image_data_param { source: "
        "'no/such/list' } transform_param { mirror: true ",
        transform, " } }");
  };
  cases.emplace_back(images(""), "no/such/list");
  cases.emplace_back(images("mean_file: 'no/such/mean'"), "no/such/");
#endif
  for (const auto& [net, expect] : cases) {
    const std::string error = ErrorOf(net, TEST, OnCpu());
    EXPECT_NE(error.find(expect), std::string::npos) << error;
    EXPECT_EQ(ErrorOf(net, TEST, OnGpu()), error);
  }
  // The values of such a data set are not bytes.
  const std::string both = DataNet(Write("both", {Drawn(3, 0), OfFloats(1)}), "mean_value: 3");
  EXPECT_EQ(ErrorOf(both, TRAIN, OnCpu()), "");
  const std::string error = ErrorOf(both, TRAIN, OnGpu());
  EXPECT_NE(error.find("record \"key1\""), std::string::npos) << error;
  EXPECT_NE(error.find("switch that off (--passes=-upload_bytes)"), std::string::npos) << error;
}

// Layers that usually only planning inserts, written by hand: CPU and GPU agree.
TEST_F(UploadedBytesPlan, PlacementsAreReadByBothDevices) {
  const std::string net = StrCat(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 6 dim: 3 "
      "} } pipeline_param { output: U8 } } layer { name: 'p' type: 'Input' top: 'p' input_param { "
      "shape { dim: 2 dim: 12 } } pipeline_param { output: U8 } } layer { name: 'y' type: "
      "'PixelsToFloat' bottom: 'x' bottom: 'p' top: 'y' transform_param { mean_file: '",
      WriteMean(3), "' scale: 0.25 } }");
  std::vector<uint8_t> pixels(2 * 4 * 6 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(5 * i + 1);
  std::vector<uint8_t> places(24);
  places[0] = 5, places[4] = 7, places[8] = 1;  // the last that there is; mirrored
  places[12] = 2, places[16] = 3;
  const auto run = [&](const PlanOptions& options) {
    const auto session = Open(net, TEST, options);
    session->Write(session->MutableData("x"), pixels.data());
    session->Write(session->MutableData("p"), places.data());
    session->Forward();
    std::vector<float> y(pixels.size());
    session->Read(session->Data("y"), y.data());
    return y;
  };
  std::vector<float> expected;
  for (const auto& [top, left, mirror] : {std::tuple{5, 7, true}, {2, 3, false}}) {
    const size_t sample = expected.empty() ? 0 : 72;
    for (int c = 0; c < 3; ++c) {
      for (int h = 0; h < 4; ++h) {
        for (int w = 0; w < 6; ++w) {
          const int from = mirror ? 5 - w : w;
          const int mean = (c * kHeight + top + h) * kWidth + left + from;
          const auto pixel = static_cast<size_t>((h * 6 + from) * 3 + c);
          expected.push_back((static_cast<float>(pixels[sample + pixel]) -
                              0.37F * static_cast<float>(mean % 401)) *
                             0.25F);
        }
      }
    }
  }
  EXPECT_EQ(run(OnCpu()), expected);
  EXPECT_EQ(run(OnGpu()), expected);
  places[0] = 6;
  EXPECT_THROW(run(OnCpu()), Error);
  const std::vector<float> outside = run(OnGpu());
  for (size_t i = 0; i < 72; ++i) ASSERT_TRUE(std::isnan(outside[i]));
  for (size_t i = 72; i < 144; ++i) ASSERT_EQ(outside[i], expected[i]);
}

}  // namespace
}  // namespace crema::test
