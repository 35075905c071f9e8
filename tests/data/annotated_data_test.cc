#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/annotated_sets.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::Annotated;
using testing::ExpectError;
using testing::Flat;
using testing::Pattern;

class AnnotatedDataTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::vector<AnnotatedDatum>& records) {
    return testing::WriteAnnotated(temp_, name, records);
  }

  // Images of 4 x 8: two boxes, none, one, three.
  std::string WriteFour() {
    return Write(
        "four",
        {Annotated(Pattern(4, 8, 3), {{1, 0, 0, 0.5f, 1}, {2, 0.5f, 0, 1, 0.5f}}),
         Annotated(Flat(4, 8, 7), {}), Annotated(Flat(4, 8, 8), {{3, 0.25f, 0.25f, 0.5f, 0.5f}}),
         Annotated(Flat(4, 8, 9),
                   {{4, 0, 0, 1, 1}, {5, 0, 0, 0.125f, 1}, {6, 0.5f, 0, 0.75f, 1}})});
  }

  static std::string Net(const std::string& source, int batch, const std::string& transform = "",
                         const std::string& annotated = "", const std::string& phase = "") {
    return StrCat("layer { name: 'boxes' type: 'AnnotatedData' top: 'data' top: 'label' ", phase,
                  " data_param { source: '", source, "' batch_size: ", batch,
                  " } transform_param { ", transform, " } annotated_data_param { ", annotated,
                  " } }");
  }

  static std::unique_ptr<Session> Build(const std::string& text, DType dtype = DType::kF32,
                                        uint64_t seed = 1) {
    const auto plan = test::PlanText(text, TRAIN, {.dtype = dtype});
    return std::make_unique<Session>(plan, Weights::Make(*plan, 1), ExecContext(1, seed));
  }

  TempDir temp_;
};

TEST_F(AnnotatedDataTest, RowsFollowTheImagesAndTheirNumberChanges) {
  const auto session = Build(Net(WriteFour(), 2));
  EXPECT_EQ(session->Data("label").shape(), (Shape{1, 1, 5, 8}));  // the two largest: 3 + 2
  session->Forward();
  EXPECT_EQ(session->Data("data").shape(), (Shape{2, 3, 4, 8}));
  EXPECT_EQ(session->Data("label").shape(), (Shape{1, 1, 2, 8}));
  EXPECT_EQ(test::ValuesOf(session->Data("label")),
            (std::vector<float>{0, 1, 0, 0, 0, 0.5, 1, 0, 0, 2, 1, 0.5, 0, 1, 0.5, 1}));
  session->Forward();
  EXPECT_EQ(session->Data("label").shape(), (Shape{1, 1, 4, 8}));  // more than before
  const std::vector<float> values = test::ValuesOf(session->Data("label"));
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 8),
            (std::vector<float>{0, 3, 0, 0.25, 0.25, 0.5, 0.5, 0}));
  EXPECT_EQ(std::vector<float>(values.begin() + 24, values.end()),
            (std::vector<float>{1, 6, 2, 0.5, 0, 0.75, 1, 0}));
  EXPECT_EQ(session->state(0)->EpochSize(), 4);
}

TEST_F(AnnotatedDataTest, ABatchWithoutBoxesHasOneRowOfMinusOne) {
  const auto session = Build(Net(Write("none", {Annotated(Flat(4, 4, 1), {})}), 3), DType::kF64);
  session->Forward();
  const ConstTensorView label = session->Data("label");
  EXPECT_EQ(label.shape(), (Shape{1, 1, 1, 8}));
  for (const double value : label.span<double>()) EXPECT_EQ(value, -1);
}

TEST_F(AnnotatedDataTest, RecordsWithoutTypeGiveLabels) {
  AnnotatedDatum plain = Annotated(Flat(4, 4, 1), {});
  plain.clear_type();
  const std::string source = Write("plain", {plain});
  const auto session = Build(Net(source, 2));
  session->Forward();
  EXPECT_EQ(test::ValuesOf(session->Data("label")), (std::vector<float>{40, 40}));
  const auto forced = Build(Net(source, 2, "", "anno_type: BBOX"));
  forced->Forward();
  EXPECT_EQ(forced->Data("label").shape(), (Shape{1, 1, 1, 8}));
}

TEST_F(AnnotatedDataTest, BoxesFollowCropAndMirror) {
  // The single bright pixel of each image is its box, so both must move together.
  cv::Mat image = Flat(6, 8, 0);
  image.at<cv::Vec3b>(2, 3) = {255, 255, 255};
  const std::string source =
      Write("one", {Annotated(image, {{1, 3.f / 8, 2.f / 6, 4.f / 8, 3.f / 6}})});
  const auto session = Build(Net(source, 16, "crop_h: 5 crop_w: 4 mirror: true"));
  for (int pass = 0; pass < 5; ++pass) {
    session->Forward();
    const std::vector<float> data = test::ValuesOf(session->Data("data"));
    const ConstTensorView label = session->Data("label");
    std::vector<bool> boxed(16);
    for (int64_t i = 0; i < label.shape()[2]; ++i) {
      const float* row = label.data<float>() + 8 * i;
      if (row[0] < 0) continue;
      boxed[static_cast<size_t>(row[0])] = true;
      const auto x = static_cast<size_t>(std::lround(row[3] * 4));
      const auto y = static_cast<size_t>(std::lround(row[4] * 5));
      EXPECT_NEAR(row[5] - row[3], 0.25, 1e-6);
      EXPECT_NEAR(row[6] - row[4], 0.2, 1e-6);
      EXPECT_EQ(data[static_cast<size_t>(row[0]) * 60 + y * 4 + x], 255);
    }
    for (size_t i = 0; i < 16; ++i) {
      const bool bright = std::count(data.begin() + static_cast<ptrdiff_t>(60 * i),
                                     data.begin() + static_cast<ptrdiff_t>(60 * i + 60), 255.f);
      EXPECT_EQ(bright, boxed[i]) << i;
    }
  }
}

constexpr char kAugmentations[] =
    "distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 "
    "contrast_lower: 0.5 contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 "
    "saturation_lower: 0.5 saturation_upper: 1.5 random_order_prob: 0.1 } "
    "expand_param { prob: 0.5 max_expand_ratio: 4 } mean_value: 104 mean_value: 117 "
    "mean_value: 123 resize_param { height: 16 width: 16 interp_mode: LINEAR interp_mode: AREA "
    "interp_mode: NEAREST interp_mode: CUBIC interp_mode: LANCZOS4 } mirror: true "
    "emit_constraint { emit_type: CENTER } noise_param { posterize: true }";
constexpr char kSamplers[] =
    "batch_sampler { max_sample: 1 max_trials: 1 } batch_sampler { sampler { min_scale: 0.3 "
    "min_aspect_ratio: 0.5 max_aspect_ratio: 2 } sample_constraint { min_jaccard_overlap: 0.3 } "
    "max_sample: 1 max_trials: 50 }";

TEST_F(AnnotatedDataTest, TheRecipeOfSsdResumesAndIgnoresThreads) {
  const std::string text = Net(WriteFour(), 3, kAugmentations, kSamplers);
  const auto collect = [](Session& session, int passes) {
    std::vector<float> all;
    for (int i = 0; i < passes; ++i) {
      session.Forward();
      for (const char* blob : {"data", "label"}) {
        const std::vector<float> values = test::ValuesOf(session.Data(blob));
        all.insert(all.end(), values.begin(), values.end());
      }
      for (const float value : test::ValuesOf(session.Data("label"))) {
        EXPECT_GE(value, -1);
        EXPECT_LE(value, 6);
      }
    }
    return all;
  };
  const auto first = Build(text);
  collect(*first, 5);
  SolverState state;
  first->SaveState("train", &state);
  const std::vector<float> expected = collect(*first, 10);
  std::string threads = text;
  threads.replace(threads.find("batch_size"), 0, "threads: 3 prefetch: 1 ");
  const auto second = Build(threads);
  second->RestoreState("train", state);
  EXPECT_EQ(collect(*second, 10), expected);
  EXPECT_NE(collect(*Build(text, DType::kF32, 2), 15), collect(*Build(text), 15));
}

TEST_F(AnnotatedDataTest, ExpansionFillsWithTheMeanAndShrinksTheBox) {
  const std::string source = Write("one", {Annotated(Flat(8, 8, 200), {{1, 0, 0, 1, 1}})});
  const auto session =
      Build(Net(source, 1,
                "expand_param { max_expand_ratio: 3 } mean_value: 50 resize_param { height: 24 "
                "width: 24 interp_mode: NEAREST }"));
  session->Forward();
  const std::vector<float> data = test::ValuesOf(session->Data("data"));
  const float* row = session->Data("label").data<float>();
  for (int y = 0; y < 24; ++y) {
    for (int x = 0; x < 24; ++x) {
      const double cx = (x + 0.5) / 24, cy = (y + 0.5) / 24;
      const bool near_edge = std::min({std::abs(cx - row[3]), std::abs(cx - row[5]),
                                       std::abs(cy - row[4]), std::abs(cy - row[6])}) < 0.05;
      if (near_edge) continue;
      const bool inside = cx > row[3] && cx < row[5] && cy > row[4] && cy < row[6];
      EXPECT_EQ(data[static_cast<size_t>(24 * y + x)], inside ? 150 : 0) << y << " " << x;
    }
  }
}

TEST_F(AnnotatedDataTest, ErrorsNameTheRecord) {
  const auto expect = [&](const std::string& name, const AnnotatedDatum& record,
                          const std::string& message) {
    const std::string source = Write(name, {Annotated(Flat(4, 4, 1), {{1, 0, 0, 1, 1}}), record});
    const auto session = Build(Net(source, 2));
    ExpectError(ErrorCode::kDataLoss, "layer \"boxes\": record \"key1\" of",
                [&] { session->Forward(); });
    ExpectError(ErrorCode::kDataLoss, message, [&] { session->Forward(); });
  };
  expect("outside", Annotated(Flat(4, 4, 1), {{1, 1.5f, 0, 2, 1}}),
         "the box 1.5 0 2 1 of label 1 is outside the image");
  expect("inverted", Annotated(Flat(4, 4, 1), {{1, 0.5f, 0, 0.4f, 1}}), "is turned inside out");
  expect("nan", Annotated(Flat(4, 4, 1), {{1, NAN, 0, 0.4f, 1}}), "not a number");
  expect("size", Annotated(Flat(5, 4, 1), {}), "is 3x5x4, but the first record is 3x4x4");
  const std::string source = Write("labels", {Annotated(Flat(4, 4, 1), {{9, 0, 0, 1, 1}})});
  const std::string map = temp_.Write("map", "item { name: 'cat' label: 1 display_name: 'cat' }");
  const auto mapped = Build(Net(source, 1, "", "label_map_file: '" + map + "'"));
  ExpectError(ErrorCode::kDataLoss, "label 9, which is not in label_map_file",
              [&] { mapped->Forward(); });
  EXPECT_NE(
      test::PlanError(Net(source, 1, "", "label_map_file: 'no/such/map'")).find("no/such/map"),
      std::string::npos);
}

TEST_F(AnnotatedDataTest, APlainDatumIsNamedAsSuch) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(1);
  datum.set_data("x");
  LmdbWriter writer(temp_.File("plain"));
  writer.Put("a", datum.SerializeAsString());
  writer.Close();
  const std::string error = test::PlanError(Net(temp_.File("plain"), 1));
  EXPECT_NE(error.find("record \"a\" of"), std::string::npos) << error;
  EXPECT_NE(error.find("a layer of type Data"), std::string::npos) << error;
}

TEST_F(AnnotatedDataTest, RawPixelsTakePartAndFloatsAreRefused) {
  AnnotatedDatum raw = Annotated(Flat(4, 4, 1), {{1, 0, 0, 1, 1}});
  Datum* datum = raw.mutable_datum();
  datum->Clear();
  datum->set_channels(1);
  datum->set_height(2);
  datum->set_width(2);
  datum->set_data(std::string(4, '\x05'));
  const auto session = Build(Net(Write("raw", {raw}), 1, "resize_param { height: 4 width: 4 }"));
  session->Forward();
  EXPECT_EQ(test::ValuesOf(session->Data("data")), std::vector<float>(16, 5));
  datum->clear_data();
  for (int i = 0; i < 4; ++i) datum->add_float_data(1);
  const auto floats = Build(Net(Write("floats", {raw}), 1, "resize_param { height: 4 width: 4 }"));
  ExpectError(ErrorCode::kDataLoss, "holds floats", [&] { floats->Forward(); });
}

TEST_F(AnnotatedDataTest, BadRecordsAreReplacedWithTheirBoxes) {
  const std::string source =
      Write("bad", {Annotated(Flat(4, 8, 5), {{3, 0, 0, 1, 1}}), testing::WithoutImage(),
                    Annotated(Flat(4, 8, 9), {{4, 0, 0, 1, 1}, {5, 0, 0, 0.5f, 1}})});
  std::string text = Net(source, 3);
  text.insert(text.rfind('}'), "pipeline_param { on_bad_sample: REPEAT }");
  const auto session = Build(text);
  session->Forward();
  const std::vector<float> rows = test::ValuesOf(session->Data("label"));
  ASSERT_EQ(rows.size(), 32u);
  EXPECT_EQ(rows[1], 3);
  EXPECT_EQ(rows[9], 3);
  EXPECT_EQ(rows[17], 4);
  EXPECT_EQ(session->state(0)->SampleName(1), "key0");
}

// The record with the most boxes occurs twice.
TEST_F(AnnotatedDataTest, ReplacedRecordsHaveRoomForTheirBoxes) {
  const std::vector<AnnotatedDatum> records = {
      Annotated(Flat(4, 8, 5), {{3, 0, 0, 1, 1}, {4, 0, 0, 1, 1}, {5, 0, 0, 1, 1}}),
      testing::WithoutImage()};
  std::string text = Net(Write("bad", records), 2);
  text.insert(text.rfind('}'), "pipeline_param { on_bad_sample: REPEAT }");
  const auto session = Build(text);
  session->Forward();
  EXPECT_EQ(test::ValuesOf(session->Data("label")).size(), 6 * 8u);
}

}  // namespace
}  // namespace crema
#endif
