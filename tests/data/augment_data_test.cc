// augment_param in the data layers: the resulting input of the net.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_JPEG
#include "crema.pb.h"
#include "data/jpeg_files.h"
#endif

namespace crema {

void RegisterAnnotatedData(Registry&);
void RegisterData(Registry&);
void RegisterImageData(Registry&);
void RegisterWindowData(Registry&);

namespace {

using test::TempDir;
using testing::Encode;
using testing::ExpectError;
using testing::ExpectSameBatches;
using testing::LayerRunner;
using testing::Pattern;

constexpr char kAll[] =
    "rotate: 20 min_scale: 0.8 max_scale: 1.3 aspect: 1.2 resized_crop { min_area: 0.3 } "
    "brightness: 0.4 contrast: 0.4 saturation: 0.4 hue: 0.1 grayscale: 0.3 blur { } erase { }";
constexpr char kCropped[] = "resized_crop { } brightness: 0.4 hue: 0.5 erase { }";

Registry Layers() {
  Registry registry;
  RegisterAnnotatedData(registry);
  RegisterData(registry);
  RegisterImageData(registry);
  RegisterWindowData(registry);
  return registry;
}

// PNG and, if supported, JPEG files of several sizes, labelled 0, 1, 2, 0, ...
std::vector<std::string> EncodedImages(int count) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    files.push_back(Encode(Pattern(24 + i, 33 - i, 3, 2 * i)));
#ifdef CREMA_HAVE_JPEG
    if (i % 2 == 0) files.back() = testing::MakeJpeg(40 + i, 60 - i, testing::Sampled("", 2, 2));
#endif
  }
  return files;
}

struct Photos {
  TempDir temp;
  std::string list;
  std::string records;

  explicit Photos(int count = 11) {
    const std::vector<std::string> files = EncodedImages(count);
    std::string lines;
    records = temp.File("records");
    const auto writer = CreateRecords(records, DataParameter::LMDB);
    for (int i = 0; i < count; ++i) {
      const std::string& file = files[static_cast<size_t>(i)];
      lines += StrCat(temp.Write(StrCat(i, ".img"), file), " ", i % 3, "\n");
      writer->Put(testing::NumberedKey(i), testing::EncodedDatum(file, i % 3).SerializeAsString());
    }
    writer->Close();
    list = temp.Write("list.txt", lines);
  }

  std::string ImageData(const std::string& augment, const std::string& transform = "",
                        const std::string& more = "batch_size: 4") const {
    return StrCat("name: 'pets' type: 'ImageData' top: 'data' top: 'label' image_data_param { ",
                  "source: '", list, "' ", more, " } transform_param { crop_size: 16 ", transform,
                  " augment_param { ", augment, " } }");
  }
  std::string Data(const std::string& augment, const std::string& transform = "") const {
    return StrCat("name: 'pets' type: 'Data' top: 'data' top: 'label' data_param { source: '",
                  records, "' batch_size: 4 } transform_param { crop_size: 16 ", transform,
                  " augment_param { ", augment, " } }");
  }
};

TEST(AugmentData, BatchesAreTheSameForAnyWorkersFromAnySampleAndFromCaches) {
  const Photos photos;
  const Registry registry = Layers();
  for (const char* augment : {kAll, kCropped}) {
    for (const std::string& layer :
         {photos.ImageData(augment, "mirror: true mean_value: 100"), photos.Data(augment)}) {
      ExpectSameBatches(registry, layer, "shuffle: true", 4);
    }
  }
  const std::string layer = photos.Data(kCropped);
  std::vector<std::vector<std::string>> samples;
  for (const std::string cache : {"NONE", "ENCODED", "DECODED"}) {
    LayerRunner runner(registry, layer + " pipeline_param { cache_mb: 8 cache: " + cache + " }");
    samples.push_back(testing::SamplesFrom(&runner, 0, 7));  // two epochs and more
  }
  EXPECT_EQ(samples[1], samples[0]);
  EXPECT_EQ(samples[2], samples[0]);
  LayerRunner list(registry, photos.ImageData(kCropped));
  EXPECT_EQ(testing::SamplesFrom(&list, 0, 7), samples[0]);
}

TEST(AugmentData, CropAndMirrorOfCaffeKeepTheirDraws) {
  const Photos photos;
  const Registry registry = Layers();
  LayerRunner plain(registry, photos.ImageData("", "mirror: true"));
  const std::vector<float> values = plain.Collect<float>(0, 6);
  // A drawn step without effect, and a factor that is always 1.
  LayerRunner idle(registry,
                   photos.ImageData("blur { probability: 0 } brightness: 1e-9", "mirror: true"));
  EXPECT_EQ(idle.Collect<float>(0, 6), values);
  LayerRunner bright(registry, photos.ImageData("brightness: 0.9", "mirror: true"));
  EXPECT_NE(bright.Collect<float>(0, 6), values);
}

TEST(AugmentData, StepsDoNotDisturbEachOthersDraws) {
  const Photos photos;
  const Registry registry = Layers();
  // The erased part does not depend on an earlier step.
  const auto erased = [&](const std::string& more) {
    LayerRunner runner(registry,
                       photos.ImageData("erase { probability: 1 } " + more, "mean_value: 255"));
    std::vector<bool> zero;
    for (const float value : runner.Collect<float>(0, 3)) zero.push_back(value == 0);
    return zero;
  };
  const std::vector<bool> alone = erased("");
  EXPECT_TRUE(std::count(alone.begin(), alone.end(), true) > 0);
  EXPECT_EQ(erased("brightness: 0.00001"), alone);
}

TEST(AugmentData, InTestNothingChangesButSmallImagesAreEnlargedToTheCrop) {
  const Photos photos;
  const Registry registry = Layers();
  for (const bool records : {false, true}) {
    const auto layer = [&](const std::string& augment) {
      return records ? photos.Data(augment) : photos.ImageData(augment);
    };
    LayerRunner plain(registry, layer(""), TEST);
    LayerRunner augmented(registry, layer(StrCat(kAll, " mixup: 1 cutmix: 1 classes: 3")), TEST);
    EXPECT_EQ(augmented.outputs[1].shape(), (Shape{4}));
    EXPECT_EQ(augmented.Collect<float>(0, 4), plain.Collect<float>(0, 4));
  }
  // 20 x 40 with crop 30: enlarged to 30 x 60, of which the middle is kept. Its left half is dark,
  // its right half bright.
  TempDir temp;
  cv::Mat image = testing::Flat(20, 40, 0);
  image.colRange(20, 40).setTo(cv::Scalar::all(200));
  const std::string path = temp.Write("a.png", Encode(image));
  const std::string layer =
      StrCat("name: 'p' type: 'ImageData' top: 'data' image_data_param { batch_size: 1 source: '",
             temp.Write("list", path + " 0\n"),
             "' } transform_param { crop_size: 30 augment_param { resized_crop { } } }");
  LayerRunner runner(registry, layer, TEST);
  const std::vector<float> values = runner.Collect<float>(0, 1);
  ASSERT_EQ(values.size(), 3U * 30 * 30);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[13], 0);
  EXPECT_EQ(values[16], 200);
  EXPECT_EQ(values[29], 200);
}

TEST(AugmentData, ErasedPartsBecomeTheMean) {
  TempDir temp;
  const std::string path = temp.Write("a.png", Encode(testing::Flat(20, 20, 50)));
  const std::string layer = StrCat(
      "name: 'p' type: 'ImageData' top: 'data' image_data_param { batch_size: 40 source: '",
      temp.Write("list", path + " 0\n"),
      "' } transform_param { mean_value: [10, 20, 30] augment_param { erase { probability: 1 ",
      "min_area: 0.25 max_area: 0.25 min_aspect: 1 max_aspect: 1 } } }");
  const Registry registry = Layers();
  LayerRunner runner(registry, layer);
  const std::vector<float> values = runner.Collect<float>(0, 1);
  for (size_t i = 0; i < 40; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const auto first = values.begin() + static_cast<ptrdiff_t>((i * 3 + c) * 400);
      EXPECT_EQ(std::count(first, first + 400, 0.F), 100);
      EXPECT_EQ(std::count(first, first + 400, 40.F - 10 * static_cast<float>(c)), 300);
    }
  }
}

TEST(AugmentData, MixedBatchesResumeAndIgnoreWorkers) {
  const Photos photos;
  const Registry registry = Layers();
  for (const std::string& layer :
       {photos.ImageData(StrCat(kCropped, " mixup: 0.4 cutmix: 1 classes: 3")),
        photos.Data("mixup: 1 classes: 5")}) {
    std::vector<std::string> expected;
    for (const int threads : {1, 2, 3, 8}) {
      const std::string text = StrCat(layer, " pipeline_param { threads: ", threads, " }");
      LayerRunner runner(registry, text);
      const std::vector<std::string> samples = testing::SamplesFrom(&runner, 0, 8);
      if (threads == 1) expected = samples;
      ASSERT_EQ(samples, expected) << threads;
      LayerRunner resumed(registry, text);
      const std::vector<std::string> rest = testing::SamplesFrom(&resumed, 12, 5);
      ASSERT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 12)) << threads;
    }
  }
}

TEST(AugmentData, MixedLabelsAreProbabilitiesOfTheTwoClasses) {
  const Photos photos;
  const Registry registry = Layers();
  LayerRunner plain(registry, photos.ImageData(""));
  const std::vector<float> classes = plain.Collect<float>(1, 5);
  LayerRunner runner(registry, photos.ImageData("mixup: 1 classes: 7"));
  ASSERT_EQ(runner.outputs[1].shape(), (Shape{4, 7}));
  const std::vector<float> labels = runner.Collect<float>(1, 5);
  for (size_t i = 0; i < 20; ++i) {
    const float* row = labels.data() + 7 * i;
    float sum = 0;
    for (int c = 0; c < 7; ++c) sum += row[c];
    EXPECT_NEAR(sum, 1, 1e-6);
    const size_t other = i % 4 == 0 ? i + 3 : i - 1;
    const auto own_class = static_cast<size_t>(classes[i]);
    const auto other_class = static_cast<size_t>(classes[other]);
    const float two = own_class == other_class ? row[own_class] : row[own_class] + row[other_class];
    EXPECT_NEAR(two, 1, 1e-6) << i;
  }
}

TEST(AugmentData, LabelsOutsideTheClassesNameTheSample) {
  const Photos photos;
  const Registry registry = Layers();
  LayerRunner list(registry, photos.ImageData("mixup: 1 classes: 2"));
  ExpectError(ErrorCode::kDataLoss, "2.img' (line 3 of", [&] { list.Forward(); });
  LayerRunner records(registry, photos.Data("cutmix: 1 classes: 2"));
  ExpectError(ErrorCode::kDataLoss, "has label 2, but augment_param.classes is 2 (labels 0..1)",
              [&] { records.Forward(); });
}

TEST(AugmentData, WhatCannotBeDoneIsRefusedWhenTheNetIsBuilt) {
  const Photos photos;
  const Registry registry = Layers();
  const auto expect = [&](const std::string& layer, const std::string& message) {
    ExpectError(ErrorCode::kInvalidArgument, message, [&] { LayerRunner(registry, layer); });
  };
  expect(photos.ImageData("mixup: 1 classes: 3", "", "batch_size: 1"), "batch_size is 1");
  expect(photos.ImageData("cutmix: 1 classes: 3", "", "batch_size: 4 label_count: 2"),
         "mixup and cutmix need one label");
  std::string one_top = photos.Data("mixup: 1 classes: 3");
  one_top.replace(one_top.find("top: 'label'"), 12, "");
  expect(one_top, "there is no second top");
  expect(photos.Data("mixup: 1 classes: 3") + " pipeline_param { output: U8 }", "output: U8");
  const std::string boxes =
      StrCat("name: 'b' type: 'AnnotatedData' top: 'data' data_param { source: '", photos.records,
             "' batch_size: 2 } transform_param { crop_size: 4 augment_param { ");
  expect(boxes + "cutmix: 1 classes: 3 } }", "is for Data and ImageData only");
  ExpectError(ErrorCode::kUnsupported, "a layer of this type cannot do", [&] {
    LayerRunner(registry,
                "name: 'w' type: 'WindowData' top: 'data' window_data_param { source: 'x' "
                "batch_size: 2 } transform_param { crop_size: 4 augment_param { hue: 0.1 } }");
  });
  // Float data has no bytes to augment.
  Datum datum;
  datum.set_channels(1);
  datum.set_height(20);
  datum.set_width(20);
  for (int i = 0; i < 400; ++i) datum.add_float_data(static_cast<float>(i));
  const std::string path = photos.temp.File("floats");
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  writer->Put("a", datum.SerializeAsString());
  writer->Close();
  const std::string floats =
      StrCat("name: 'f' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 2 source: '",
             path, "' } transform_param { augment_param { ");
  EXPECT_NO_THROW(LayerRunner(registry, floats + "mixup: 1 classes: 2 } }").Forward());
  expect(StrCat("name: 'f' type: 'Data' top: 'data' data_param { batch_size: 2 source: '", path,
                "' } transform_param { augment_param { contrast: 0.5 } }"),
         "holds floats; augment_param needs images of bytes");
}

TEST(AugmentData, ClassesThatAreNotThoseOfTheNetAreNamed) {
  const Photos photos;
  for (const char* step : {"mixup", "cutmix"}) {
    const std::string layer = photos.ImageData(StrCat(step, ": 1 classes: 5"));
    const std::string error = test::PlanError(StrCat(
        "layer { ", layer, " } layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' ",
        "inner_product_param { num_output: 3 } } layer { name: 'loss' type: 'SoftmaxWithLoss' ",
        "bottom: 'fc' bottom: 'label' top: 'loss' }"));
    EXPECT_NE(error.find("layer \"loss\": "), std::string::npos) << error;
    EXPECT_NE(error.find("with mixup or cutmix, transform_param.augment_param.classes of the data "
                         "layer, 5 here, must be 3"),
              std::string::npos)
        << error;
  }
}

TEST(AugmentData, OneTextTrainsOnMixedLabelsAndTestsOnPlainOnes) {
  const Photos photos;
  const std::string net = StrCat(
      "layer { ", photos.ImageData("mixup: 0.5 cutmix: 1 classes: 3", "scale: 0.01"), " } ",
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' inner_product_param { "
      "num_output: 3 weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' } ");
  const auto accuracy = [](const std::string& include) {
    return "layer { name: 'a' type: 'Accuracy' bottom: 'fc' bottom: 'label' top: 'a' " + include +
           " }";
  };
  for (const Phase phase : {TRAIN, TEST}) {
    const auto plan = test::PlanText(net + accuracy("include { phase: TEST }"), phase, {});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
    session.Forward();
    EXPECT_TRUE(std::isfinite(test::ValuesOf(session.Data("loss"))[0]));
  }
  ExpectError(ErrorCode::kInvalidArgument, "add include { phase: TEST } to this layer",
              [&] { test::PlanText(net + accuracy(""), TRAIN, {}); });
}

}  // namespace
}  // namespace crema
#endif
