// Implementations of GPUs that sort, match and suppress boxes against the native methods, on random
// cases with boxes that overlap and scores that are equal: both must choose the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "graph/implementation.h"
#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_run.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

constexpr int kCases = 150;
// Exponentials and logarithms of GPUs differ in the last bit; the choices do not.
constexpr double kDetectionTolerance = 1e-6;

class DetectionDraw {
 public:
  explicit DetectionDraw(uint64_t number) : stream_(23, number) {}
  int64_t Int(int64_t low, int64_t high) {
    return low + stream_.Below(next_++, static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int percent) { return Int(1, 100) <= percent; }
  double Real(double low, double high) { return low + (high - low) * stream_.Uniform(next_++); }
  std::string Pick(const std::vector<std::string>& words) {
    return words[static_cast<size_t>(Int(0, static_cast<int64_t>(words.size()) - 1))];
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

struct DetectionCase {
  LayerSample sample;
  CaseValues values;

  void Add(std::vector<int64_t> shape, Values values_of_it) {
    for (double& v : values_of_it) v = double{static_cast<float>(v)};
    sample.inputs.push_back({.shape = std::move(shape)});
    values.inputs.push_back(std::move(values_of_it));
  }
};

template <typename Value>
Values Many(int64_t count, const Value& value) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value());
  return values;
}

// Corners on a grid, so that overlaps are equal at times; now and then without area.
void AppendBox(DetectionDraw& draw, Values* values) {
  const double x = static_cast<double>(draw.Int(0, 12)) / 16;
  const double y = static_cast<double>(draw.Int(0, 12)) / 16;
  const double width = static_cast<double>(draw.Int(draw.Chance(5) ? 0 : 1, 6)) / 16;
  const double height = static_cast<double>(draw.Int(1, 6)) / 16;
  values->insert(values->end(), {x, y, x + width, y + height});
}

Values DrawPriors(DetectionDraw& draw, int64_t priors) {
  Values values;
  for (int64_t p = 0; p < priors; ++p) AppendBox(draw, &values);
  for (int64_t p = 0; p < 4 * priors; ++p) values.push_back(p % 4 < 2 ? 0.1 : 0.2);
  return values;
}

Values DrawObjects(DetectionDraw& draw, int64_t rows, int64_t images, int64_t classes,
                   int64_t background) {
  Values values;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t label = draw.Int(0, classes - 1);
    if (label == background) label = (label + 1) % classes;
    const bool none = draw.Chance(10);
    values.insert(values.end(), {none ? -1.0 : static_cast<double>(draw.Int(0, images - 1)),
                                 static_cast<double>(label), 0.0});
    AppendBox(draw, &values);
    values.push_back(draw.Chance(20) ? 1 : 0);
  }
  return values;
}

std::string DrawSuppression(DetectionDraw& draw) {
  std::string text = StrCat("nms_param { nms_threshold: ", draw.Pick({"0.3", "0.5", "0.7", "1"}));
  if (draw.Chance(30)) text += " eta: 0.9";
  if (draw.Chance(60)) text += StrCat(" top_k: ", draw.Int(-1, 40));
  return text + " } ";
}

DetectionCase DrawDetectionOutput(DetectionDraw& draw) {
  const int64_t images = draw.Int(1, 3), classes = draw.Int(2, 5), priors = draw.Int(1, 90);
  const bool share = draw.Chance(70);
  std::string text =
      StrCat("detection_output_param { num_classes: ", classes, " share_location: ", share,
             " background_label_id: ", draw.Int(-1, classes - 1), " ");
  if (draw.Chance(70)) text += DrawSuppression(draw);
  if (draw.Chance(60)) text += StrCat("keep_top_k: ", draw.Int(-1, 30), " ");
  if (draw.Chance(60)) text += StrCat("confidence_threshold: ", draw.Int(1, 7), "e-1 ");
  if (draw.Chance(50)) text += "variance_encoded_in_target: true ";
  DetectionCase c;
  c.sample.prototxt =
      text + "code_type: " + draw.Pick({"CORNER", "CENTER_SIZE", "CORNER_SIZE"}) + " }";
  const int64_t boxes = priors * (share ? 1 : classes);
  c.Add({images, boxes * 4}, Many(images * boxes * 4, [&] { return draw.Real(-0.3, 0.3); }));
  c.Add({images, priors * classes},
        Many(images * priors * classes, [&] { return static_cast<double>(draw.Int(0, 32)) / 32; }));
  c.Add({1, 2, priors * 4}, DrawPriors(draw, priors));
  return c;
}

// Objects and classes on a grid of values, so that scores are equal at times. Not more than two
// classes: the order of a sum would matter.
DetectionCase DrawYolo(DetectionDraw& draw, bool v3) {
  const int64_t images = draw.Int(1, 3), classes = draw.Int(1, 2), anchors = draw.Int(1, 3);
  const int64_t grids = draw.Int(1, 3);
  std::string text =
      StrCat(v3 ? "yolov3" : "yolo", "_detection_output_param { num_classes: ", classes,
             " num_box: ", anchors, " nms_threshold: ", draw.Pick({"0.3", "0.5", "0.7", "1"}),
             " confidence_threshold: ", draw.Int(0, 6), "e-1 ");
  for (int64_t i = 0; i < 2 * anchors; ++i) {
    text += StrCat("biases: ", draw.Int(1, 4) * (v3 ? 16 : 1), " ");
  }
  DetectionCase c;
  for (int64_t g = 0; g < grids; ++g) {
    for (int64_t a = 0; v3 && a < anchors; ++a)
      text += StrCat("mask: ", draw.Int(0, anchors - 1), " ");
    if (v3) text += StrCat("anchors_scale: ", 8 << g, " ");
    const int64_t height = draw.Int(1, 6), width = draw.Int(1, 6);
    const int64_t channels = anchors * (5 + classes);
    int64_t i = 0;
    c.Add({images, channels, height, width}, Many(images * channels * height * width, [&] {
            const bool box = i++ / (height * width) % (5 + classes) < 4;
            return box ? draw.Real(-1, 1) : static_cast<double>(draw.Int(-4, 4)) / 2;
          }));
  }
  c.sample.prototxt = StrCat(text, v3 ? StrCat("mask_group_num: ", grids) : "", " }");
  return c;
}

DetectionCase DrawProposal(DetectionDraw& draw) {
  const int64_t images = draw.Int(1, 2), height = draw.Int(1, 6), width = draw.Int(1, 7);
  DetectionCase c;
  c.sample.prototxt = StrCat(
      "proposal_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 3 min_size: ", draw.Int(0, 20),
      " pre_nms_topn: ", draw.Int(1, 300), " post_nms_topn: ", draw.Int(1, 60),
      " nms_thresh: ", draw.Pick({"0.3", "0.5", "0.7"}), " }");
  c.sample.outputs = draw.Chance(50) ? 2 : 1;
  c.Add({images, 12, height, width}, Many(images * 12 * height * width, [&] {
          return static_cast<double>(draw.Int(0, 40)) / 40;
        }));
  c.Add({images, 24, height, width},
        Many(images * 24 * height * width, [&] { return draw.Real(-0.4, 0.4); }));
  Values sizes;
  for (int64_t n = 0; n < images; ++n) {
    const auto side = [&] { return static_cast<double>(draw.Int(30, 120)); };
    sizes.insert(sizes.end(), {side(), side(), draw.Chance(80) ? 1.0 : 3.0});
  }
  c.Add({images, 3}, sizes);
  return c;
}

DetectionCase DrawDetectionEvaluate(DetectionDraw& draw) {
  const int64_t images = draw.Int(1, 3), classes = draw.Int(2, 4);
  const int64_t background = draw.Int(0, classes - 1);
  DetectionCase c;
  c.sample.prototxt = StrCat("detection_evaluate_param { num_classes: ", classes,
                             " background_label_id: ", background,
                             " overlap_threshold: ", draw.Pick({"0.1", "0.3", "0.5"}),
                             " evaluate_difficult_gt: ", draw.Chance(50), " }");
  Values detections;
  const int64_t rows = draw.Int(0, 300);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t label = draw.Int(0, classes - 1);
    if (label == background) label = (label + 1) % classes;
    detections.insert(detections.end(),
                      {draw.Chance(5) ? -1.0 : static_cast<double>(draw.Int(0, images - 1)),
                       static_cast<double>(label),
                       draw.Chance(3) ? std::nan("") : static_cast<double>(draw.Int(0, 16)) / 16});
    AppendBox(draw, &detections);
  }
  c.Add({1, 1, rows, 7}, detections);
  const int64_t objects = draw.Int(0, 40);
  c.Add({1, 1, objects, 8}, DrawObjects(draw, objects, images, classes, background));
  return c;
}

std::string DrawMining(DetectionDraw& draw) {
  const int64_t kind = draw.Int(1, 3);
  if (kind == 1) return "mining_type: NONE ";
  if (kind == 2) {
    return StrCat("mining_type: MAX_NEGATIVE neg_pos_ratio: ", draw.Int(0, 4), " neg_overlap: 0.",
                  draw.Int(2, 9), " ");
  }
  return StrCat("mining_type: HARD_EXAMPLE sample_size: ", draw.Int(0, 20), " ",
                draw.Chance(60) ? DrawSuppression(draw) : "",
                "use_prior_for_nms: ", draw.Chance(50), " ");
}

DetectionCase DrawMultiBoxLoss(DetectionDraw& draw) {
  const int64_t images = draw.Int(1, 3), classes = draw.Int(3, 5), priors = draw.Int(1, 80);
  const int64_t background = draw.Int(0, classes - 2);
  const bool share = draw.Chance(75);
  const std::string yes_or_no[] = {"false", "true"};
  const auto flag = [&](const char* name) {
    return StrCat(name, ": ", yes_or_no[draw.Int(0, 1)], " ");
  };
  DetectionCase c;
  c.sample.prototxt = StrCat(
      "loss_param { normalization: ", draw.Pick({"VALID", "FULL", "BATCH_SIZE", "NONE"}),
      " } multibox_loss_param { num_classes: ", classes, " background_label_id: ", background,
      " overlap_threshold: ", draw.Pick({"0.2", "0.35", "0.5"}), " share_location: ", share, " ",
      share ? DrawMining(draw) : "mining_type: NONE ", flag("use_prior_for_matching"),
      flag("encode_variance_in_target"), flag("bp_inside"), flag("use_difficult_gt"),
      flag("ignore_cross_boundary_bbox"), flag("map_object_to_agnostic"),
      "match_type: ", draw.Pick({"BIPARTITE", "PER_PREDICTION"}),
      " code_type: ", draw.Pick({"CORNER", "CENTER_SIZE", "CORNER_SIZE"}),
      " loc_loss_type: ", draw.Pick({"L2", "SMOOTH_L1"}),
      " conf_loss_type: ", draw.Pick({"SOFTMAX", "LOGISTIC"}), " loc_weight: 0.5 }");
  const int64_t boxes = priors * (share ? 1 : classes);
  c.Add({images, boxes * 4}, Many(images * boxes * 4, [&] { return draw.Real(-1, 1); }));
  c.Add({images, priors * classes},
        Many(images * priors * classes, [&] { return draw.Real(-2, 2); }));
  c.Add({1, 2, priors * 4}, DrawPriors(draw, priors));
  const int64_t objects = draw.Int(0, 25);
  c.Add({1, 1, objects, 8}, DrawObjects(draw, objects, images, classes, background));
  c.sample.phase = TRAIN;
  c.values.output_grads = {{0.75}};
  return c;
}

DetectionCase DrawFilter(DetectionDraw& draw) {
  const int64_t items = draw.Int(0, 700), size = draw.Int(1, 5);
  DetectionCase c;
  c.Add({items, size}, Many(items * size, [&] { return draw.Real(-1, 1); }));
  const int percent = static_cast<int>(draw.Int(0, 100));
  c.Add({items}, Many(items, [&] { return draw.Chance(percent) ? draw.Real(0.1, 1) : 0.0; }));
  return c;
}

const Implementation& GpuImplementation(const LayerType& type) {
  const auto implementation =
      std::ranges::find(type.implementations, DeviceType::kCuda, &Implementation::device);
  if (implementation == type.implementations.end())
    Fail(ErrorCode::kInternal, type.name + " has no implementation for GPUs");
  return **implementation;
}

void ExpectSame(const std::vector<Values>& got, const std::vector<Values>& expected,
                const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), expected[k].size()) << what << " " << k;
    for (size_t i = 0; i < got[k].size(); ++i) {
      const double bound = kDetectionTolerance * std::max(1.0, std::abs(expected[k][i]));
      const bool same = got[k][i] == expected[k][i];
      ASSERT_TRUE(same || std::abs(got[k][i] - expected[k][i]) <= bound)
          << what << " " << k << " is " << got[k][i] << " at element " << i << ", expected "
          << expected[k][i];
    }
  }
}

// Returns the number of cases whose outputs were not empty.
int CompareCases(const std::string& name, DetectionCase (*draw_case)(DetectionDraw&),
                 bool backward) {
  const LayerType& type = *LayersWithGpuImplementations().Find(name);
  int with_outputs = 0;
  for (uint64_t number = 0; number < kCases && !testing::Test::HasFailure(); ++number) {
    DetectionDraw draw(MixBits(HashName(name), number));
    const DetectionCase c = draw_case(draw);
    const std::string what = StrCat(name, " case ", number, ": ", c.sample.prototxt);
    const LayerCase layer_case(type, c.sample, DType::kF32);
    const RunResult expected = RunLayer(layer_case, c.values, {.backward = backward});
    const RunResult got = RunLayer(
        layer_case, c.values, {.backward = backward, .implementation = &GpuImplementation(type)});
    EXPECT_EQ(got.failures, std::vector<std::string>()) << what;
    ExpectSame(got.outputs, expected.outputs, what + ": output");
    ExpectSame(got.input_grads, expected.input_grads, what + ": gradient of input");
    with_outputs += expected.outputs[0].empty() ? 0 : 1;
  }
  return with_outputs;
}

TEST(DetectionImplementations, DetectionOutputKeepsTheSameBoxes) {
  EXPECT_GT(CompareCases("DetectionOutput", DrawDetectionOutput, false), kCases / 2);
}

TEST(DetectionImplementations, HeadsOfYoloKeepTheSameBoxes) {
  const auto v2 = [](DetectionDraw& draw) { return DrawYolo(draw, false); };
  const auto v3 = [](DetectionDraw& draw) { return DrawYolo(draw, true); };
  EXPECT_EQ(CompareCases("YoloDetectionOutput", v2, false), kCases);
  EXPECT_EQ(CompareCases("Yolov3DetectionOutput", v3, false), kCases);
}

TEST(DetectionImplementations, ProposalKeepsTheSameRegions) {
  EXPECT_GT(CompareCases("Proposal", DrawProposal, false), kCases / 2);
}

TEST(DetectionImplementations, DetectionEvaluateJudgesTheSame) {
  EXPECT_GT(CompareCases("DetectionEvaluate", DrawDetectionEvaluate, false), kCases / 2);
}

TEST(DetectionImplementations, MultiBoxLossMatchesAndMinesTheSame) {
  EXPECT_EQ(CompareCases("MultiBoxLoss", DrawMultiBoxLoss, true), kCases);
}

TEST(DetectionImplementations, FilterKeepsTheSameItems) {
  EXPECT_GT(CompareCases("Filter", DrawFilter, false), kCases / 2);
}

// The message is the CPU's.
std::string FailureOf(const std::string& name, const std::string& text, const Values& first,
                      const Values& second) {
  const LayerType& type = *LayersWithGpuImplementations().Find(name);
  const auto rows = [](const Values& values, int64_t width) {
    return SampleInput{.shape = {1, 1, static_cast<int64_t>(values.size()) / width, width}};
  };
  LayerSample sample{.name = "", .prototxt = text, .inputs = {}};
  if (name == "Filter") {
    sample.inputs = {{.shape = {2}}, {.shape = {2}}};
  } else {
    sample.inputs = {rows(first, 7), rows(second, 8)};
  }
  const LayerCase layer_case(type, sample, DType::kF32);
  CaseValues values;
  values.inputs = {first, second};
  try {
    RunLayer(layer_case, values, {.implementation = &GpuImplementation(type)});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DetectionImplementations, SayWhatIsWrongAsTheCpuDoes) {
  EXPECT_NE(FailureOf("Filter", "", {1, 2}, {1, std::nan("")}).find("selector of item 1"),
            std::string::npos);
  const std::string classes = "detection_evaluate_param { num_classes: 3 }";
  const Values detection{0, 1, 0.5, 0, 0, 1, 1};
  const Values object{0, 2, 0, 0, 0, 1, 1, 0};
  EXPECT_EQ(FailureOf("DetectionEvaluate", classes, detection, object), "");
  Values wrong = detection;
  wrong[1] = 7;
  EXPECT_NE(FailureOf("DetectionEvaluate", classes, wrong, object).find("label 7 in row 0"),
            std::string::npos);
  wrong = object;
  wrong[4] = std::nan("");
  EXPECT_NE(FailureOf("DetectionEvaluate", classes, detection, wrong).find("not a number"),
            std::string::npos);
}

TEST(DetectionImplementations, DetectionOutputWritesFiles) {
  const TempDir temp;
  temp.Write("map.txt", "item { name: 'none' label: 0 } item { name: 'dog' label: 1 }");
  temp.Write("sizes.txt", "first 100 200\nsecond 10 20\n");
  DetectionCase c;
  c.sample.prototxt = StrCat(
      "detection_output_param { num_classes: 2 confidence_threshold: 0.2 save_output_param { "
      "output_directory: '",
      temp.File("results"), "' output_name_prefix: 'det_' output_format: 'VOC' label_map_file: '",
      temp.File("map.txt"), "' name_size_file: '", temp.File("sizes.txt"), "' } }");
  c.Add({2, 8}, Values(16, 0));
  c.Add({2, 4}, {0, 0.5, 0, 0, 0, 0, 0, 0.75});
  c.Add({1, 2, 8}, {0, 0, 0.5, 1, 0.5, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const LayerType& type = *LayersWithGpuImplementations().Find("DetectionOutput");
  const LayerCase layer_case(type, c.sample, DType::kF32);
  const RunResult got =
      RunLayer(layer_case, c.values, {.implementation = &GpuImplementation(type)});
  EXPECT_EQ(got.failures, std::vector<std::string>());
  EXPECT_EQ(ReadFile(temp.File("results/det_dog.txt")),
            "first 0.5 0 0 100 100\nsecond 0.75 10 0 20 10\n");
}

// A kernel body cannot throw, and this pass does not wait for a loss.
TEST(DetectionImplementations, AWrongObjectMakesTheLossNaN) {
  const LayerType& type = *LayersWithGpuImplementations().Find("MultiBoxLoss");
  DetectionDraw draw(3);
  DetectionCase c = DrawMultiBoxLoss(draw);
  c.values.inputs[3] = {99, 1, 0, 0, 0, 1, 1, 0};
  c.sample.inputs[3].shape = {1, 1, 1, 8};
  const LayerCase layer_case(type, c.sample, DType::kF32);
  const RunResult got =
      RunLayer(layer_case, c.values, {.implementation = &GpuImplementation(type)});
  EXPECT_TRUE(std::isnan(got.outputs[0][0]));
}

}  // namespace
}  // namespace crema::test
