// pipeline_param { output: U8 } of the data layers, followed by PixelsToFloat.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/datum_batches.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::PlanError;
using test::PlanText;
using test::TempDir;
using test::TestRegistry;
using testing::Encode;
using testing::ExpectError;
using testing::ExpectSameBatches;
using testing::GrayDatum;
using testing::LayerRunner;
using testing::Pattern;

// Planes of `channels` x 6 x 9 whose bytes all differ.
Datum RawDatum(int channels, int number) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(6);
  datum.set_width(9);
  datum.set_label(number);
  for (int i = 0; i < channels * 6 * 9; ++i) {
    datum.mutable_data()->push_back(static_cast<char>(31 * number + i));
  }
  return datum;
}

Datum FloatDatum(int number) {
  Datum datum = RawDatum(1, number);
  for (const char byte : datum.data()) datum.add_float_data(static_cast<float>(byte));
  datum.clear_data();
  return datum;
}

Datum NumberedDatum(const std::string& file, int number) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(file);
  datum.set_label(number);
  return datum;
}

class U8OutputTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::vector<Datum>& records) {
    LmdbWriter writer(temp_.File(name));
    for (size_t i = 0; i < records.size(); ++i) {
      writer.Put(StrCat("key", i), records[i].SerializeAsString());
    }
    writer.Close();
    return temp_.File(name);
  }
  std::string WriteRaw(int channels, int count = 7) {
    std::vector<Datum> records;
    for (int n = 0; n < count; ++n) records.push_back(RawDatum(channels, n));
    return Write(StrCat("raw", channels), records);
  }
  std::string WriteEncoded(const std::string& extension, int channels = 3) {
    std::vector<Datum> records;
    for (int n = 0; n < 7; ++n) {
      records.push_back(NumberedDatum(Encode(Pattern(40, 52, channels, 5 * n), extension), n));
    }
    return Write("encoded" + extension, records);
  }
  std::string WriteList(const std::string& extension) {
    std::string lines;
    for (int n = 0; n < 7; ++n) {
      lines += temp_.Write(StrCat(n, extension), Encode(Pattern(40, 52, 3, 5 * n), extension)) +
               StrCat(" ", n, "\n");
    }
    return temp_.Write("list" + extension + ".txt", lines);
  }
  std::string WriteMean(int channels, int height, int width) {
    BlobProto blob;
    for (const int dim : {channels, height, width}) blob.mutable_shape()->add_dim(dim);
    for (int i = 0; i < channels * height * width; ++i) blob.add_data(0.3F * static_cast<float>(i));
    return temp_.Write("mean", blob.SerializeAsString());
  }
  TempDir temp_;
};

std::string BytesText(const std::string& source, const std::string& transform,
                      const std::string& pipeline) {
  return StrCat("name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '", source,
                "' batch_size: 3 } transform_param { ", transform, " } pipeline_param { ", pipeline,
                " }");
}

std::string ImageText(const std::string& source, const std::string& transform,
                      const std::string& pipeline, const std::string& more = "") {
  return StrCat("name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '",
                source, "' batch_size: 3 ", more, " } transform_param { ", transform,
                " } pipeline_param { ", pipeline, " }");
}

std::string PixelsText(const std::string& transform) {
  return StrCat("layer { name: 'floats' type: 'PixelsToFloat' bottom: 'data' top: 'floats' ",
                "transform_param { ", transform, " } }");
}

std::vector<int> BytesOf(const Tensor& tensor) {
  const auto span = tensor.view().span<uint8_t>();
  return {span.begin(), span.end()};
}

std::string BytesOf(const ConstTensorView& view) {
  return {static_cast<const char*>(view.raw()), view.bytes()};
}

std::unique_ptr<Session> Open(const std::string& text, DType dtype, Phase phase = TRAIN,
                              int threads = 1) {
  const auto plan = PlanText(text, phase, {.dtype = dtype, .threads = threads});
  return std::make_unique<Session>(plan, Weights::Make(*plan, 1), ExecContext(threads, 5));
}

// `layer` makes the text of the data layer from the fields of transform_param and pipeline_param;
// `placing` are steps that stay in it, `numbers` those that move to PixelsToFloat.
template <typename MakeLayer>
void ExpectSameNumbers(const MakeLayer& layer, const std::string& placing,
                       const std::string& numbers, const std::string& pipeline = "") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const Phase phase : {TRAIN, TEST}) {
      const auto floats =
          Open("layer { " + layer(placing + " " + numbers, pipeline) + " }", dtype, phase);
      const auto bytes =
          Open("layer { " + layer(placing, pipeline + " output: U8") + " } " + PixelsText(numbers),
               dtype, phase, 3);
      for (int batch = 0; batch < 4; ++batch) {
        floats->Forward();
        bytes->Forward();
        ASSERT_EQ(bytes->Data("data").dtype(), DType::kU8);
        ASSERT_EQ(bytes->Data("floats").shape(), floats->Data("data").shape());
        ASSERT_EQ(BytesOf(bytes->Data("floats")), BytesOf(floats->Data("data")))
            << placing << " " << numbers << ", batch " << batch;
        ASSERT_EQ(BytesOf(bytes->Data("label")), BytesOf(floats->Data("label")));
      }
    }
  }
}

constexpr const char* kColourMeans = "mean_value: 104 mean_value: 117.3 mean_value: 123 ";

TEST_F(U8OutputTest, GrayPixelsAreAsTheyLie) {
  const std::string set = Write("gray", {GrayDatum(3, 4, 0), GrayDatum(3, 4, 1)});
  LayerRunner runner(TestRegistry(), BytesText(set, "crop_size: 2", "output: U8"), TEST);
  ASSERT_EQ(runner.outputs[0].shape(), (Shape{3, 2, 2, 1}));
  ASSERT_EQ(runner.outputs[0].dtype(), DType::kU8);
  EXPECT_EQ(runner.outputs[1].dtype(), DType::kF32);
  runner.Forward();
  EXPECT_EQ(BytesOf(runner.outputs[0]), (std::vector<int>{1, 2, 5, 6, 11, 12, 15, 16, 1, 2, 5, 6}));
  const auto labels = runner.outputs[1].view().span<float>();
  EXPECT_EQ(std::vector<float>(labels.begin(), labels.end()), (std::vector<float>{0, 1, 0}));
}

TEST_F(U8OutputTest, PlanesArePutTogetherPixelByPixel) {
  const std::string set = WriteRaw(3, 1);
  LayerRunner runner(TestRegistry(), BytesText(set, "crop_h: 2 crop_w: 3", "output: U8"), TEST);
  ASSERT_EQ(runner.outputs[0].shape(), (Shape{3, 2, 3, 3}));
  runner.Forward();
  std::vector<int> expected;
  for (int y = 2; y < 4; ++y) {
    for (int x = 3; x < 6; ++x) {
      for (int c = 0; c < 3; ++c) expected.push_back(c * 54 + y * 9 + x);
    }
  }
  std::vector<int> batch = BytesOf(runner.outputs[0]);
  batch.resize(expected.size());
  EXPECT_EQ(batch, expected);
}

TEST_F(U8OutputTest, NumbersAreThoseOfTheFloatPath) {
  const std::string colour = WriteRaw(3);
  const std::string placing = "crop_size: 5 mirror: true";
  const auto data = [](const std::string& set) {
    return [set](const std::string& transform, const std::string& pipeline) {
      return BytesText(set, transform, pipeline);
    };
  };
  ExpectSameNumbers(data(colour), placing, std::string(kColourMeans) + "scale: 0.017");
  ExpectSameNumbers(data(WriteRaw(1)), placing, "mean_value: 33.3");
  ExpectSameNumbers(data(WriteRaw(5)), placing, "scale: 0.00390625");
  ExpectSameNumbers(data(colour), "mirror: true", "");
  ExpectSameNumbers(data(WriteEncoded(".jpg")), "crop_size: 31 mirror: true", kColourMeans);
  ExpectSameNumbers(data(WriteEncoded(".png", 1)), placing, "scale: 0.3", "cache: DECODED");
  ExpectSameNumbers(data(colour), placing, "scale: 0.3", "shuffle: true threads: 3");
}

TEST_F(U8OutputTest, ImageDataToo) {
  const auto images = [](const std::string& list, const std::string& more) {
    return [list, more](const std::string& transform, const std::string& pipeline) {
      return ImageText(list, transform, pipeline, more);
    };
  };
  const std::string list = WriteList(".jpg");
  ExpectSameNumbers(images(list, ""), "crop_size: 29 mirror: true", kColourMeans);
  ExpectSameNumbers(images(list, "new_height: 20 new_width: 30"), "crop_size: 19 mirror: true",
                    "scale: 0.017");
  ExpectSameNumbers(images(WriteList(".png"), "is_color: false"), "mirror: true", "mean_value: 9",
                    "cache: DECODED");
}

TEST_F(U8OutputTest, MeanImageOfTheSizeOfThePixels) {
  const std::string set = WriteRaw(3);
  const std::string mean = "mean_file: '" + WriteMean(3, 6, 9) + "' ";
  ExpectSameNumbers(
      [&](const std::string& transform, const std::string& pipeline) {
        return BytesText(set, transform, pipeline);
      },
      "", mean + "scale: 0.5");
  const std::string cropped = "layer { " + BytesText(set, "crop_size: 4", "output: U8") + " } ";
  const std::string error = PlanError(cropped + PixelsText(mean));
  EXPECT_NE(error.find("is 3x6x9, but the pixels, which are cropped already, are 3x4x4"),
            std::string::npos)
      << error;
}

TEST_F(U8OutputTest, BoxesFollowAsEver) {
  AnnotatedDatum record;
  *record.mutable_datum() = RawDatum(3, 4);
  record.set_type(AnnotatedDatum::BBOX);
  AnnotationGroup* group = record.add_annotation_group();
  group->set_group_label(2);
  NormalizedBBox* box = group->add_annotation()->mutable_bbox();
  box->set_xmin(0.25F);
  box->set_ymin(0.5F);
  box->set_xmax(0.75F);
  box->set_ymax(0.875F);
  LmdbWriter writer(temp_.File("boxes"));
  writer.Put("key", record.SerializeAsString());
  writer.Close();
  const auto layer = [&](const std::string& transform, const std::string& pipeline) {
    return StrCat("name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '",
                  temp_.File("boxes"), "' batch_size: 2 } transform_param { ", transform,
                  " } pipeline_param { ", pipeline, " }");
  };
  ExpectSameNumbers(layer, "mirror: true", kColourMeans);
  ExpectSameNumbers(layer, "mirror: true resize_param { prob: 1 height: 12 width: 14 }",
                    kColourMeans);
}

TEST_F(U8OutputTest, SameBytesForAnyWorkersAndAfterResuming) {
  const auto text = [](const std::string& source, const std::string& transform) {
    return StrCat("name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '", source,
                  "' batch_size: 3 } transform_param { ", transform, " }");
  };
  ExpectSameBatches(TestRegistry(), text(WriteRaw(3), "crop_size: 4 mirror: true"), "output: U8");
  ExpectSameBatches(TestRegistry(), text(WriteEncoded(".jpg"), "crop_size: 24 mirror: true"),
                    "output: U8 shuffle: true");
  const std::string images =
      StrCat("name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '",
             WriteList(".jpg"), "' batch_size: 3 } transform_param { crop_size: 24 mirror: true }");
  ExpectSameBatches(TestRegistry(), images, "output: U8 shuffle: true");
}

TEST_F(U8OutputTest, GradientsAreThoseOfTheFloatPath) {
  const std::string set = WriteRaw(3);
  const auto rest = [](const std::string& bottom) {
    return StrCat("layer { name: 'ip' type: 'InnerProduct' bottom: '", bottom,
                  "' top: 'ip' inner_product_param { num_output: 7 weight_filler { type: 'xavier' ",
                  "} } } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' ",
                  "bottom: 'label' top: 'loss' }");
  };
  const std::string numbers = std::string(kColourMeans) + "scale: 0.01";
  const auto floats =
      Open("layer { " + BytesText(set, numbers, "") + " } " + rest("data"), DType::kF32);
  const auto bytes = Open("force_backward: true layer { " + BytesText(set, "", "output: U8") +
                              " } " + PixelsText(numbers) + rest("floats"),
                          DType::kF32);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(floats->Forward(), bytes->Forward());
    for (Session* session : {floats.get(), bytes.get()}) {
      session->ZeroParameterGradients();
      session->Backward();
    }
    EXPECT_EQ(BytesOf(floats->Gradient("ip")), BytesOf(bytes->Gradient("ip")));
    EXPECT_TRUE(bytes->Gradient("data").empty());
  }
}

TEST_F(U8OutputTest, FloatingPointStepsAreRefused) {
  const std::string set = WriteRaw(3);
  const auto error = [&](const std::string& transform) {
    return PlanError("layer { " + BytesText(set, transform, "output: U8") + " }");
  };
  for (const std::string text : {"mean_value: 104", "mean_file: 'm'", "scale: 0.5"}) {
    const std::string message = error(text);
    const std::string field = text.substr(0, text.find(':'));
    EXPECT_NE(message.find(field + " cannot be together with pipeline_param { output: U8 }"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("move it to the transform_param of a PixelsToFloat layer"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(error("scale: 1"), "");
  for (const std::string step : {"rotate: 5", "min_scale: 0.5", "aspect: 2", "erase { }"}) {
    const std::string message = error("crop_size: 2 augment_param { " + step + " }");
    EXPECT_NE(message.find("since it fills with the mean"), std::string::npos) << message;
  }
}

TEST_F(U8OutputTest, LayersThatHaveNoBytesSaySo) {
  const std::string hdf5 = PlanError(
      "layer { name: 'h' type: 'HDF5Data' top: 'data' hdf5_data_param { source: 'x' batch_size: 1 "
      "} pipeline_param { output: U8 } }");
  EXPECT_NE(hdf5.find("pipeline_param.output is U8, which HDF5Data cannot give"), std::string::npos)
      << hdf5;
  const std::string windows = PlanError(
      "layer { name: 'w' type: 'WindowData' top: 'data' window_data_param { source: 'x' "
      "batch_size: 1 } transform_param { crop_size: 4 } pipeline_param { output: U8 } }");
  EXPECT_NE(windows.find("which WindowData cannot give"), std::string::npos) << windows;
  const std::string canvas = PlanError(
      "layer { name: 'a' type: 'AnnotatedData' top: 'data' data_param { source: 'x' batch_size: 1 "
      "} transform_param { crop_size: 4 expand_param { max_expand_ratio: 2 } } pipeline_param { "
      "output: U8 } }");
  EXPECT_NE(canvas.find("expand_param cannot be together with"), std::string::npos) << canvas;
}

TEST_F(U8OutputTest, FloatRecordsAreRefused) {
  const std::string first = Write("floats", {FloatDatum(0)});
  const std::string error = PlanError("layer { " + BytesText(first, "", "output: U8") + " }");
  EXPECT_NE(error.find("the first record holds floats"), std::string::npos) << error;
  const std::string later = Write("later", {RawDatum(1, 0), FloatDatum(1), RawDatum(1, 2)});
  LayerRunner runner(TestRegistry(), BytesText(later, "", "output: U8"));
  ExpectError(ErrorCode::kDataLoss, "record \"key1\" of", [&] { runner.Forward(); });
  ExpectError(ErrorCode::kDataLoss, "holds floats", [&] { runner.Forward(); });
  LayerRunner skipping(TestRegistry(), BytesText(later, "", "output: U8 on_bad_sample: SKIP"));
  skipping.Forward();
  const auto labels = skipping.outputs[1].view().span<float>();
  EXPECT_EQ(std::vector<float>(labels.begin(), labels.end()), (std::vector<float>{0, 2, 2}));
}

}  // namespace
}  // namespace crema
#endif
