// The decoding of raw outputs, against the formulas of the models' own code, written a second time.
#include "inference/detection_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr int kSide = 64;                                     // of the input
constexpr int kPlaces = 8 * 8 + 4 * 4 + 2 * 2;                // of strides 8, 16, 32
constexpr int kFacePlaces = 3 * 64 + 2 * 16 + 2 * 4 + 3 * 1;  // of the Ultra-Light detector

std::vector<float> Uniform(size_t count, unsigned seed, float low, float high) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = low + (high - low) * static_cast<float>(generator() >> 8) / 16777216.0F;
  }
  return values;
}

struct Expected {
  int label;
  double score;
  double x1, y1, x2, y2;
  std::vector<std::pair<double, double>> points = {};
};

double Iou(const Expected& a, const Expected& b, double extra) {
  const double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1) + extra;
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1) + extra;
  const double common = std::max(0.0, w) * std::max(0.0, h);
  const auto area = [&](const Expected& e) {
    return (e.x2 - e.x1 + extra) * (e.y2 - e.y1 + extra);
  };
  return common / (area(a) + area(b) - common);
}

// torchvision.ops.batched_nms: boxes of other classes are far away. `extra`: 1 for the pixel that
// older code adds to each side.
std::vector<Expected> Nms(std::vector<Expected> all, double overlap, double extra = 0) {
  std::ranges::stable_sort(all, std::ranges::greater{}, &Expected::score);
  std::vector<Expected> kept;
  for (const Expected& one : all) {
    Expected moved = one;
    const bool stays = std::ranges::none_of(kept, [&](const Expected& k) {
      return k.label == moved.label && Iou(moved, k, extra) > overlap;
    });
    if (stays) kept.push_back(one);
  }
  return kept;
}

using Outputs = std::vector<std::pair<HeadOutput, std::vector<float>>>;

std::vector<HeadOutput> InfosOf(const Outputs& outputs) {
  std::vector<HeadOutput> infos;
  for (const auto& [info, values] : outputs) infos.push_back(info);
  return infos;
}

std::vector<HeadObject> Decoded(const std::string& name, const Outputs& outputs, double least,
                                std::optional<double> overlap = {}) {
  const auto head = DetectionHead::Find(name, InfosOf(outputs), kSide, kSide);
  EXPECT_TRUE(head.has_value());
  std::vector<std::span<const float>> values;
  for (const std::string& wanted : head->outputs()) {
    for (const auto& [info, given] : outputs) {
      if (info.name == wanted) values.emplace_back(given);
    }
  }
  return head->Decode(values, 0, least, overlap);
}

void ExpectSame(const std::vector<HeadObject>& found, const std::vector<Expected>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GT(found.size(), 3U) << "the test says little";
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(found[i].label, expected[i].label);
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-6);
    EXPECT_NEAR(found[i].box.xmin, expected[i].x1, 1e-3);
    EXPECT_NEAR(found[i].box.ymin, expected[i].y1, 1e-3);
    EXPECT_NEAR(found[i].box.xmax, expected[i].x2, 1e-3);
    EXPECT_NEAR(found[i].box.ymax, expected[i].y2, 1e-3);
    ASSERT_EQ(found[i].keypoints.size(), expected[i].points.size());
    for (size_t k = 0; k < expected[i].points.size(); ++k) {
      EXPECT_NEAR(found[i].keypoints[k].x, expected[i].points[k].first, 1e-3);
      EXPECT_NEAR(found[i].keypoints[k].y, expected[i].points[k].second, 1e-3);
    }
  }
}

std::string NameOf(const Outputs& outputs) {
  const auto head = DetectionHead::Find("", InfosOf(outputs), kSide, kSide);
  return head ? head->name() : "";
}

// Rows of a YOLO: the first four fields are a box, the others 0 to 1.
std::vector<float> YoloRows(int rows, int fields, unsigned seed) {
  std::vector<float> values = Uniform(static_cast<size_t>(rows * fields), seed, 0, 1);
  const auto boxes = Uniform(static_cast<size_t>(rows * 4), seed + 1, 10, 50);
  for (int r = 0; r < rows; ++r) {
    std::copy_n(boxes.begin() + 4 * r, 4, values.begin() + static_cast<ptrdiff_t>(r) * fields);
  }
  return values;
}

Expected Around(int label, double score, double x, double y, double w, double h) {
  return {label, score, x - w / 2, y - h / 2, x + w / 2, y + h / 2};
}

// models/common.py and utils/general.py of YOLOv5: x[:, 5:] *= x[:, 4:5], the best class of each.
TEST(DetectionHead, YoloV5MultipliesObjectAndClass) {
  constexpr int kRows = 3 * kPlaces, kFields = 8;
  const std::vector<float> rows = YoloRows(kRows, kFields, 1);
  const Outputs outputs = {{{"output0", Shape{kRows, kFields}}, rows}};
  EXPECT_EQ(NameOf(outputs), "yolov5");
  std::vector<Expected> expected;
  for (int r = 0; r < kRows; ++r) {
    const float* v = rows.data() + r * kFields;
    const float* best = std::max_element(v + 5, v + kFields);
    const double score = double{v[4]} * *best;
    if (score > 0.5) {
      expected.push_back(Around(static_cast<int>(best - v - 5), score, v[0], v[1], v[2], v[3]));
    }
  }
  ExpectSame(Decoded("", outputs, 0.5), Nms(expected, 0.45));
  ExpectSame(Decoded("yolov5", outputs, 0.5, 0.2), Nms(expected, 0.2));
}

// utils/general.py of YOLOv7: with one class the score is that of the object.
TEST(DetectionHead, YoloV7IgnoresTheScoreOfAnOnlyClass) {
  constexpr int kRows = 3 * kPlaces, kFields = 6;
  const std::vector<float> rows = YoloRows(kRows, kFields, 2);
  std::vector<Expected> expected;
  for (int r = 0; r < kRows; ++r) {
    const float* v = rows.data() + r * kFields;
    if (v[4] > 0.9F) expected.push_back(Around(0, v[4], v[0], v[1], v[2], v[3]));
  }
  ExpectSame(Decoded("yolov7", {{{"output", Shape{kRows, kFields}}, rows}}, 0.9F),
             Nms(expected, 0.45));
}

// ultralytics/utils/nms.py: columns of boxes and classes.
TEST(DetectionHead, YoloV8HasNoObjectness) {
  constexpr int kFields = 7;
  const std::vector<float> rows = YoloRows(kPlaces, kFields, 3);
  std::vector<float> columns(rows.size());
  std::vector<Expected> expected;
  for (int r = 0; r < kPlaces; ++r) {
    const float* v = rows.data() + r * kFields;
    for (int f = 0; f < kFields; ++f) columns[static_cast<size_t>(f * kPlaces + r)] = v[f];
    const float* best = std::max_element(v + 4, v + kFields);
    if (*best > 0.8F) {
      expected.push_back(Around(static_cast<int>(best - v - 4), *best, v[0], v[1], v[2], v[3]));
    }
  }
  const Outputs outputs = {{{"output0", Shape{kFields, kPlaces}}, columns}};
  EXPECT_EQ(NameOf(outputs), "yolov8");
  ExpectSame(Decoded("", outputs, 0.8F), Nms(expected, 0.7));
}

TEST(DetectionHead, PosesHavePoints) {
  constexpr int kFields = 5 + 3 * 2;
  const std::vector<float> rows = YoloRows(kPlaces, kFields, 4);
  std::vector<float> columns(rows.size());
  std::vector<Expected> expected;
  for (int r = 0; r < kPlaces; ++r) {
    const float* v = rows.data() + r * kFields;
    for (int f = 0; f < kFields; ++f) columns[static_cast<size_t>(f * kPlaces + r)] = v[f];
    if (!(v[4] > 0.8F)) continue;
    expected.push_back(Around(0, v[4], v[0], v[1], v[2], v[3]));
    expected.back().points = {{v[5], v[6]}, {v[8], v[9]}};
  }
  ExpectSame(Decoded("yolov8_pose", {{{"output0", Shape{kFields, kPlaces}}, columns}}, 0.8F),
             Nms(expected, 0.7));
}

TEST(DetectionHead, RowsOfYoloV10AreAnswers) {
  std::vector<float> rows(300 * 6);
  std::vector<Expected> expected;
  const std::vector<float> random = Uniform(300, 5, 0, 1);
  for (int r = 0; r < 300; ++r) {
    const float row[] = {float(r), 2, 40, 50, random[static_cast<size_t>(r)], float(r % 80)};
    std::ranges::copy(row, rows.begin() + 6 * r);
    if (row[4] > 0.7F) expected.push_back({r % 80, row[4], double(r), 2, 40, 50});
  }
  std::ranges::stable_sort(expected, std::ranges::greater{}, &Expected::score);
  const Outputs outputs = {{{"output0", Shape{300, 6}}, rows}};
  EXPECT_EQ(NameOf(outputs), "yolov10");
  ExpectSame(Decoded("", outputs, 0.7F), expected);
}

// yolox/models/yolo_head.py: decode_outputs; yolox/utils/boxes.py: postprocess.
TEST(DetectionHead, YoloXIsDecodedOnItsGrids) {
  constexpr int kFields = 7;
  std::vector<float> rows = Uniform(kPlaces * kFields, 6, 0, 1);
  const std::vector<float> offsets = Uniform(kPlaces * 4, 7, -1, 2);
  std::vector<Expected> expected;
  int r = 0;
  for (const int stride : {8, 16, 32}) {
    for (int y = 0; y < kSide / stride; ++y) {
      for (int x = 0; x < kSide / stride; ++x, ++r) {
        float* v = rows.data() + r * kFields;
        std::copy_n(offsets.begin() + 4 * r, 4, v);
        const float* best = std::max_element(v + 5, v + kFields);
        const double score = double{v[4]} * *best;
        if (!(score > 0.3)) continue;
        expected.push_back(Around(static_cast<int>(best - v - 5), score, (v[0] + x) * stride,
                                  (v[1] + y) * stride, std::exp(double{v[2]}) * stride,
                                  std::exp(double{v[3]}) * stride));
      }
    }
  }
  const Outputs raw = {{{"output", Shape{kPlaces, kFields}, true}, rows}};
  EXPECT_EQ(NameOf(raw), "yolox");
  ExpectSame(Decoded("", raw, 0.3), Nms(expected, 0.65));
  const Outputs unknown = {{{"output", Shape{kPlaces, kFields}, false}, rows}};
  EXPECT_EQ(NameOf(unknown), "") << "it may be decoded, as that of YOLOv6";
  const auto candidates = DetectionHead::Candidates(InfosOf(unknown), kSide, kSide);
  EXPECT_TRUE(std::set<std::string>(candidates.begin(), candidates.end()).contains("yolox"));
}

// layers/functions/prior_box.py and utils/box_utils.py of Pytorch_Retinaface, in units of the
// image; utils/nms/py_cpu_nms.py counts both pixels.
TEST(DetectionHead, RetinaFaceHasLandmarks) {
  constexpr int kBoxes = 2 * kPlaces;
  const std::vector<float> loc = Uniform(kBoxes * 4, 8, -1, 1);
  const std::vector<float> conf = Uniform(kBoxes * 2, 9, 0, 1);
  const std::vector<float> landms = Uniform(kBoxes * 10, 10, -2, 2);
  std::vector<Expected> expected;
  int b = 0;
  for (const auto& [step, sizes] :
       {std::pair{8, std::pair{16, 32}}, {16, {64, 128}}, {32, {256, 512}}}) {
    for (int i = 0; i < kSide / step; ++i) {
      for (int j = 0; j < kSide / step; ++j) {
        for (const int size : {sizes.first, sizes.second}) {
          const double cx = (j + 0.5) * step / kSide, cy = (i + 0.5) * step / kSide;
          const double side = double(size) / kSide;
          const float* l = loc.data() + 4 * b;
          const double w = side * std::exp(l[2] * 0.2), h = side * std::exp(l[3] * 0.2);
          Expected one = Around(1, conf[size_t(2 * b + 1)], (cx + l[0] * 0.1 * side) * kSide,
                                (cy + l[1] * 0.1 * side) * kSide, w * kSide, h * kSide);
          for (int k = 0; k < 5; ++k) {
            const float* p = landms.data() + 10 * b + 2 * k;
            one.points.emplace_back((cx + p[0] * 0.1 * side) * kSide,
                                    (cy + p[1] * 0.1 * side) * kSide);
          }
          if (one.score > 0.6F) expected.push_back(one);
          ++b;
        }
      }
    }
  }
  const Outputs outputs = {{{"conf", Shape{kBoxes, 2}}, conf},
                           {{"landms", Shape{kBoxes, 10}}, landms},
                           {{"loc", Shape{kBoxes, 4}}, loc}};
  EXPECT_EQ(NameOf(outputs), "retinaface");
  ExpectSame(Decoded("", outputs, 0.6F), Nms(expected, 0.4, 1));
}

TEST(DetectionHead, DecodedFacesAreCornersInUnitsOfTheImage) {
  std::vector<float> boxes = Uniform(kFacePlaces * 4, 11, 0, 0.5);
  const std::vector<float> scores = Uniform(kFacePlaces * 2, 12, 0, 1);
  std::vector<Expected> expected;
  for (int b = 0; b < kFacePlaces; ++b) {
    float* v = boxes.data() + 4 * b;
    v[2] += 0.5F, v[3] += 0.5F;
    const float score = scores[size_t(2 * b + 1)];
    if (!(score > 0.7F)) continue;
    expected.push_back({1, score, v[0] * double{kSide}, v[1] * double{kSide}, v[2] * double{kSide},
                        v[3] * double{kSide}});
  }
  const Outputs outputs = {{{"scores", Shape{kFacePlaces, 2}}, scores},
                           {{"boxes", Shape{kFacePlaces, 4}}, boxes}};
  EXPECT_EQ(NameOf(outputs), "ultra_light_face_decoded");
  ExpectSame(Decoded("", outputs, 0.7F, 0.6), Nms(expected, 0.6));
}

// lib/models/decode.py of CenterNet: sigmoid, the peaks of 3 x 3, the best 100 of all classes.
TEST(DetectionHead, CenterNetKeepsPeaksOfTheHeatMap) {
  constexpr int kMap = kSide / 4, kClasses = 3;
  const std::vector<float> heat = Uniform(kClasses * kMap * kMap, 13, -4, 4);
  const std::vector<float> size = Uniform(2 * kMap * kMap, 14, 1, 6);
  const std::vector<float> offset = Uniform(2 * kMap * kMap, 15, 0, 1);
  std::vector<Expected> expected;
  const auto at = [&](int c, int y, int x) {
    return y < 0 || x < 0 || y >= kMap || x >= kMap
               ? -INFINITY
               : heat[static_cast<size_t>((c * kMap + y) * kMap + x)];
  };
  for (int c = 0; c < kClasses; ++c) {
    for (int y = 0; y < kMap; ++y) {
      for (int x = 0; x < kMap; ++x) {
        float most = -INFINITY;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx) most = std::max(most, at(c, y + dy, x + dx));
        }
        const double score = 1 / (1 + std::exp(-double{at(c, y, x)}));
        if (most != at(c, y, x) || !(score > 0.9F)) continue;
        const auto place = static_cast<size_t>(y * kMap + x);
        expected.push_back(Around(c, score, 4 * (x + double{offset[place]}),
                                  4 * (y + double{offset[place + kMap * kMap]}), 4 * size[place],
                                  4 * size[place + kMap * kMap]));
      }
    }
  }
  std::ranges::stable_sort(expected, std::ranges::greater{}, &Expected::score);
  expected.resize(std::min<size_t>(expected.size(), 100));
  const Outputs outputs = {{{"reg", Shape{2, kMap, kMap}}, offset},
                           {{"hm", Shape{kClasses, kMap, kMap}, true}, heat},
                           {{"wh", Shape{2, kMap, kMap}}, size}};
  EXPECT_EQ(NameOf(outputs), "centernet");
  ExpectSame(Decoded("", outputs, 0.9F), expected);
}

TEST(DetectionHead, EachImageOfABatchHasItsOwnObjects) {
  std::vector<float> rows(2 * 300 * 6, 0.0F);
  rows[4] = 0.9F;
  rows[300 * 6 + 4] = 0.8F;
  const HeadOutput output{"o", Shape{300, 6}};
  const auto head = DetectionHead::Find("", {&output, 1}, kSide, kSide);
  const std::span<const float> values = rows;
  EXPECT_FLOAT_EQ(static_cast<float>(head->Decode({&values, 1}, 0, 0.5, {})[0].score), 0.9F);
  EXPECT_FLOAT_EQ(static_cast<float>(head->Decode({&values, 1}, 1, 0.5, {})[0].score), 0.8F);
}

std::string HeadError(const std::string& name, const HeadOutput& output) {
  try {
    DetectionHead::Find(name, {&output, 1}, kSide, kSide);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// slim-320 and RFB-320 have the same outputs; the order and the names of the blobs do not count.
TEST(DetectionHead, UltraLightDetectorsAreKnownByTheirPriors) {
  for (const auto& [height, width, boxes] : {std::tuple{240, 320, 4420}, {480, 640, 17640}}) {
    const HeadOutput outputs[] = {{"374", Shape{boxes, 2}}, {"offsets", Shape{boxes, 4}, true}};
    const auto head = DetectionHead::Find("", outputs, height, width);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->name(), "ultra_light_face");
    EXPECT_EQ(head->outputs(), (std::vector<std::string>{"offsets", "374"}));
    EXPECT_EQ(head->classes(), 2);
  }
}

TEST(DetectionHead, OtherShapesAreRefusedWithThoseOfTheHead) {
  const std::string wrong = HeadError("yolox", {"out", Shape{100, 85}});
  EXPECT_NE(wrong.find("N x boxes x (5 + classes), a box for each place of strides"),
            std::string::npos)
      << wrong;
  EXPECT_NE(wrong.find("'out' Nx100x85"), std::string::npos) << wrong;
  const std::string unknown = HeadError("yolo5", {"out", Shape{100, 85}});
  EXPECT_NE(unknown.find("yolov5"), std::string::npos) << unknown;
}

TEST(DetectionHead, NetsForOtherTasksHaveNone) {
  for (const Shape& shape : {Shape{1000}, Shape{21, 64, 64}, Shape{26, 37}, Shape{}}) {
    const HeadOutput output{"prob", shape};
    EXPECT_FALSE(DetectionHead::Find("", {&output, 1}, kSide, kSide)) << ToString(shape);
  }
}

}  // namespace
}  // namespace crema
