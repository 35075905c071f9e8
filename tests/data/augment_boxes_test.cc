// Boxes of AnnotatedData under augment_param.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/image_files.h"
#include "data/record_sets.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

void RegisterAnnotatedData(Registry&);

namespace {

using test::TempDir;

// A bright rectangle in a dark image, and its box.
std::string WriteBoxed(const TempDir& temp) {
  cv::Mat image = testing::Flat(96, 128, 0);
  image(cv::Rect(40, 30, 40, 24)).setTo(cv::Scalar::all(255));
  AnnotatedDatum record;
  *record.mutable_datum() = testing::EncodedDatum(testing::Encode(image), 0);
  record.set_type(AnnotatedDatum::BBOX);
  AnnotationGroup* group = record.add_annotation_group();
  group->set_group_label(1);
  NormalizedBBox* box = group->add_annotation()->mutable_bbox();
  box->set_xmin(40.F / 128);
  box->set_ymin(30.F / 96);
  box->set_xmax(80.F / 128);
  box->set_ymax(54.F / 96);
  const std::string path = temp.File("boxed");
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  writer->Put("key", record.SerializeAsString());
  writer->Close();
  return path;
}

// Returns the bounding box of pixels brighter than half in one plane, in units of the image.
Box BrightBox(const float* plane, int height, int width) {
  Box box{.xmin = 1, .ymin = 1, .xmax = 0, .ymax = 0};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (plane[y * width + x] < 128) continue;
      box.xmin = std::min(box.xmin, static_cast<double>(x) / width);
      box.xmax = std::max(box.xmax, (x + 1.0) / width);
      box.ymin = std::min(box.ymin, static_cast<double>(y) / height);
      box.ymax = std::max(box.ymax, (y + 1.0) / height);
    }
  }
  return box;
}

TEST(AugmentBoxes, BoxesFollowTheGeometry) {
  TempDir temp;
  const std::string source = WriteBoxed(temp);
  const auto layer = [&](const std::string& transform) {
    return StrCat("layer { name: 'boxes' type: 'AnnotatedData' top: 'data' top: 'label' ",
                  "data_param { source: '", source, "' batch_size: 32 } transform_param { ",
                  transform, " } }");
  };
  struct Case {
    std::string transform;
    int height;
    int width;
  };
  for (const Case& one :
       {Case{"augment_param { rotate: 180 }", 96, 128},
        Case{"augment_param { min_scale: 0.5 max_scale: 1.5 aspect: 1.5 }", 96, 128},
        Case{"crop_size: 64 mirror: true augment_param { resized_crop { min_area: 0.3 } }", 64, 64},
        Case{"crop_size: 80 mirror: true augment_param { rotate: 30 min_scale: 0.8 max_scale: 1.2 "
             "resized_crop { min_area: 0.5 } }",
             80, 80}}) {
    SCOPED_TRACE(one.transform);
    const auto plan = test::PlanText(layer(one.transform), TRAIN, {});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 3));
    int boxes = 0;
    for (int pass = 0; pass < 2; ++pass) {
      session.Forward();
      const std::vector<float> data = test::ValuesOf(session.Data("data"));
      const ConstTensorView label = session.Data("label");
      for (int64_t i = 0; i < label.shape()[2]; ++i) {
        const float* row = label.data<float>() + 8 * i;
        if (row[0] < 0) continue;
        ++boxes;
        const auto sample = static_cast<size_t>(row[0]) * 3;
        const Box bright =
            BrightBox(data.data() + sample * static_cast<size_t>(one.height * one.width),
                      one.height, one.width);
        // Rotated corner pixels are darker than half: tolerate some pixels.
        EXPECT_NEAR(row[3] * one.width, bright.xmin * one.width, 3);
        EXPECT_NEAR(row[4] * one.height, bright.ymin * one.height, 3);
        EXPECT_NEAR(row[5] * one.width, bright.xmax * one.width, 3);
        EXPECT_NEAR(row[6] * one.height, bright.ymax * one.height, 3);
      }
    }
    EXPECT_GT(boxes, 40);
  }
}

TEST(AugmentBoxes, BatchesWithBoxesAreTheSameForAnyWorkersAndFromAnySample) {
  TempDir temp;
  const std::string layer = StrCat(
      "name: 'boxes' type: 'AnnotatedData' top: 'data' data_param { source: '", WriteBoxed(temp),
      "' batch_size: 3 } transform_param { crop_size: 24 mirror: true distort_param { "
      "brightness_prob: 1 brightness_delta: 30 } augment_param { rotate: 20 min_scale: 0.8 "
      "max_scale: 1.3 aspect: 1.2 resized_crop { min_area: 0.3 } contrast: 0.4 blur { } erase { } "
      "} "
      "}");
  Registry registry;
  RegisterAnnotatedData(registry);
  testing::ExpectSameBatches(registry, layer, "", 4);
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 3, 8}) {
    const auto plan = test::PlanText(
        StrCat("layer { ", layer, " top: 'label' pipeline_param { ", "threads: ", threads, " } }"),
        TRAIN, {});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
    std::vector<std::vector<float>> boxes;
    for (int pass = 0; pass < 4; ++pass) {
      session.Forward();
      boxes.push_back(test::ValuesOf(session.Data("label")));
    }
    if (threads == 1) expected = boxes;
    EXPECT_EQ(boxes, expected) << threads << " threads";
  }
}

TEST(AugmentBoxes, BoxesWhoseMiddleLeavesTheImageAreDropped) {
  TempDir temp;
  const std::string source = WriteBoxed(temp);
  const auto count = [&](const std::string& constraint) {
    const auto plan = test::PlanText(
        StrCat("layer { name: 'boxes' type: 'AnnotatedData' top: 'data' top: 'label' ",
               "data_param { source: '", source, "' batch_size: 64 } transform_param { ",
               "crop_size: 32 augment_param { resized_crop { max_area: 0.1 } } ", constraint,
               " } }"),
        TRAIN, {});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 3));
    session.Forward();
    return session.Data("label").shape()[2];
  };
  const int64_t centres = count("");
  EXPECT_EQ(count("emit_constraint { emit_type: CENTER }"), centres);
  const int64_t parts = count("emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 0.01 }");
  EXPECT_GT(parts, centres);
  EXPECT_LT(centres, 64);
}

}  // namespace
}  // namespace crema
#endif
