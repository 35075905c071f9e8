// evaluate --report: whole runs on small data sets whose answers are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/csv.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/lmdb.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::TempDir;
using Table = std::vector<std::vector<std::string>>;

class EvaluateReport : public ::testing::Test {
 protected:
  // Records of floats, C x H x W each.
  void WriteSet(const std::string& name, const std::vector<int>& shape,
                const std::vector<std::vector<float>>& records, const std::vector<int>& labels) {
    LmdbWriter writer(temp_.File(name));
    for (size_t i = 0; i < records.size(); ++i) {
      Datum datum;
      datum.set_channels(shape[0]);
      datum.set_height(shape[1]);
      datum.set_width(shape[2]);
      datum.set_label(labels.empty() ? 0 : labels[i]);
      for (const float v : records[i]) datum.add_float_data(v);
      char key[24];
      std::snprintf(key, sizeof(key), "%08zu", i);
      writer.Put(key, datum.SerializeAsString());
    }
    writer.Close();
  }

  std::string DataLayer(const std::string& set, const std::string& tops, int batch) const {
    return "layer { name: '" + set + "' type: 'Data' " + tops + " data_param { source: '" +
           temp_.File(set) + "' batch_size: " + std::to_string(batch) + " backend: LMDB } }\n";
  }

  ProcessResult Evaluate(std::string net, std::vector<std::string> flags) {
    // A parameter, since there are no weights without one.
    net += "layer { name: 'w' type: 'Parameter' top: 'w' parameter_param { shape { dim: 1 } } }\n";
    temp_.Write("net.prototxt", net);
    const auto plan = test::PlanText(net, TEST);
    WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("w.caffemodel"));
    std::vector<std::string> command = {Bin("evaluate"), "--model=net.prototxt",
                                        "--weights=w.caffemodel"};
    command.insert(command.end(), flags.begin(), flags.end());
    return test::RunProcess(command, temp_.path());
  }

  Table Csv(const std::string& name) const { return tools::ParseCsv(temp_.Read(name)); }

  TempDir temp_;
};

// Scores are the pixels of a 3 x 1 x 1 image; the labels 0, 0, 1, 2, 2. Sample 1 is taken for
// class 2 with certainty, sample 4 for class 0 narrowly.
class ClassReport : public EvaluateReport {
 protected:
  void SetUp() override {
    WriteSet("set", {3, 1, 1}, {{3, 0, 0}, {0, 0, 9}, {0, 4, 0}, {0, 1, 5}, {2, 0, 1}},
             {0, 0, 1, 2, 2});
  }
  std::string Net(const std::string& end = kLoss) const {
    return "name: 'tiny'\n" + DataLayer("set", "top: 'data' top: 'label'", 2) +
           "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'scores' }\n" + end;
  }
  static constexpr const char* kLoss =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'l' }\n";
};

TEST_F(ClassReport, WritesTheConfusionMatrix) {
  const ProcessResult result = Evaluate(Net(), {"--report=out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "5 samples")) << result.out;
  EXPECT_TRUE(Contains(result.out, "top-1 0.6000")) << result.out;
  EXPECT_EQ(Csv("out/confusion_matrix.csv"), (Table{{"true \\ predicted", "0", "1", "2"},
                                                    {"0", "1", "0", "1"},
                                                    {"1", "0", "1", "0"},
                                                    {"2", "1", "0", "1"}}));
  EXPECT_EQ(temp_.Read("out/confusion_matrix.png").substr(1, 3), "PNG");
}

TEST_F(ClassReport, WritesRatesOfClasses) {
  temp_.Write("names.txt", "cat\ndog, brown\n\"owl\"\n");
  ASSERT_EQ(Evaluate(Net(), {"--report=out", "--labels=names.txt"}).exit_code, 0);
  const Table table = Csv("out/per_class.csv");
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[0], (std::vector<std::string>{"class", "name", "precision", "recall", "f1",
                                                "support", "auc"}));
  EXPECT_EQ(table[1][2], "0.5");
  EXPECT_EQ(table[2], (std::vector<std::string>{"1", "dog, brown", "1", "1", "1", "1", "1"}));
  EXPECT_EQ(table[3][1], "\"owl\"");
  // Class 0: probabilities of its samples .909, .0001; of the others .018, .007, .665.
  EXPECT_EQ(table[1][6], "0.5");
  const std::string summary = temp_.Read("out/summary.json");
  EXPECT_TRUE(Contains(summary, "\"kind\": \"classification\"")) << summary;
  EXPECT_TRUE(Contains(summary, "\"top1\": 0.6")) << summary;
  EXPECT_TRUE(Contains(summary, "\"top5\": null")) << summary;
  EXPECT_TRUE(Contains(summary, "\"class_names\": [\"cat\", \"dog, brown\", \"\\\"owl\\\"\"]"));
}

TEST_F(ClassReport, ShowsTheWorstSamplesFirst) {
  ASSERT_EQ(Evaluate(Net(), {"--report=out", "--worst=2"}).exit_code, 0);
  const Table table = Csv("out/worst.csv");
  ASSERT_EQ(table.size(), 3U);
  const std::vector<std::string>& worst = table[1];
  EXPECT_EQ(worst[1], "1");  // sample
  EXPECT_EQ(worst[3], "0");
  EXPECT_EQ(worst[5], "2");
  EXPECT_NEAR(std::stod(worst[9]), 9 + std::log(1 + 2 * std::exp(-9)), 1e-4);
  EXPECT_NEAR(std::stod(worst[7]), 1 / (1 + 2 * std::exp(-9)), 1e-4);
  EXPECT_EQ(table[2][1], "4");  // in the smaller last batch
  EXPECT_EQ(temp_.Read("out/" + worst[10]).substr(1, 3), "PNG");
  EXPECT_FALSE(fs::exists(temp_.File("out/worst/003.png")));
}

// Accuracy alone: its scores may be probabilities, which depends on the producer.
TEST_F(ClassReport, ReadsProbabilities) {
  const std::string net =
      Net("layer { name: 'p' type: 'Softmax' bottom: 'scores' top: 'p' }\n"
          "layer { name: 'a' type: 'Accuracy' bottom: 'p' bottom: 'label' top: 'a' }\n");
  ASSERT_EQ(Evaluate(net, {"--report=out", "--worst=1"}).exit_code, 0);
  EXPECT_NEAR(std::stod(Csv("out/worst.csv")[1][9]), 9, 1e-3);
}

TEST_F(ClassReport, TakesTheBlobsThatAreNamed) {
  const std::string net =
      Net("layer { name: 'neg' type: 'Power' bottom: 'scores' top: 'neg' power_param { scale: -1 } "
          "}\n" +
          std::string(kLoss));
  const ProcessResult result = Evaluate(net, {"--report=out", "--prediction=neg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "predictions 'neg', labels 'label'")) << result.out;
  EXPECT_EQ(Csv("out/confusion_matrix.csv")[1], (std::vector<std::string>{"0", "1", "1", "0"}));
}

TEST_F(ClassReport, RefusesWhatItCannotRead) {
  const auto expect = [&](const std::string& net, std::vector<std::string> flags,
                          const std::string& message) {
    flags.push_back("--report=out");
    const ProcessResult result = Evaluate(net, flags);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
  };
  expect(Net(""), {}, "no layer of the TEST phase compares predictions with labels");
  expect(Net(), {"--prediction=score"}, "no blob 'score' (did you mean 'scores'?)");
  expect(Net(), {"--label=data"}, "expected one label for each of the 2 predictions");
  expect(Net(), {"--worst=-1"}, "--worst is -1");
  temp_.Write("two.txt", "a\nb\n");
  expect(Net(), {"--labels=two.txt"}, "two.txt has 2 labels, but the net has 3 classes");
  expect(Net(), {"--labels=three.txt"}, "three.txt");
  EXPECT_FALSE(fs::exists(temp_.File("out"))) << "no empty folder is left";
}

TEST_F(EvaluateReport, ADeployNetIsNoNetToEvaluate) {
  const ProcessResult result = Evaluate(
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 } } }\n",
      {});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "reads no data set: give the training net (train_val.prototxt)"))
      << result.err;
}

TEST_F(ClassReport, FlagsOfTheReportNeedIt) {
  const ProcessResult result = Evaluate(Net(), {"--labels=names.txt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "--report=DIR")) << result.err;
}

TEST_F(ClassReport, AFolderThatCannotBeWrittenIsSaidBeforeTheRun) {
  temp_.Write("file", "");
  const ProcessResult result = Evaluate(Net(), {"--report=file"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_TRUE(Contains(result.err, "'file' is not a folder")) << result.err;
  EXPECT_FALSE(Contains(result.out, "samples")) << result.out;
}

// 200 x 150 pixels of one color become a thumbnail of half the size.
TEST_F(EvaluateReport, PicturesOfSamplesAreSmall) {
  std::vector<float> pixels(3 * 150 * 200, 10);
  std::fill(pixels.begin(), pixels.begin() + 150 * 200, 200.0F);  // blue
  WriteSet("set", {3, 150, 200}, {pixels}, {1});
  const ProcessResult result = Evaluate(
      DataLayer("set", "top: 'data' top: 'label'", 1) +
          "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { pool: AVE "
          "global_pooling: true } }\n"
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'p' bottom: 'label' top: 'l' }\n",
      {"--report=out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string png = temp_.Read("out/worst/001.png");
  ASSERT_EQ(png.substr(1, 3), "PNG");
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\0\x64\0\0\0\x4b", 8));  // 100 x 75
#ifdef CREMA_HAVE_OPENCV
  Image image;
  DecodeImage(png, ColorMode::kAsStored, "thumbnail", &image);
  EXPECT_EQ(image.pixels[0], 200);  // blue comes first
  EXPECT_EQ(image.pixels.back(), 10);
#endif
}

TEST_F(EvaluateReport, OneSigmoidIsTwoClasses) {
  WriteSet("set", {1, 1, 1}, {{2}, {-1}, {1}, {-3}}, {1, 1, 0, 0});
  const ProcessResult result = Evaluate(
      DataLayer("set", "top: 'data' top: 'label'", 4) +
          "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'scores' }\n"
          "layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'scores' bottom: 'label' "
          "top: 'l' }\n",
      {"--report=out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Table table = Csv("out/confusion_matrix.csv");
  EXPECT_EQ(table[1], (std::vector<std::string>{"0", "1", "1"}));
  EXPECT_EQ(table[2], (std::vector<std::string>{"1", "1", "1"}));
  EXPECT_TRUE(Contains(temp_.Read("out/summary.json"), "\"auc\": 0.75"));  // 3 of 4 pairs
}

// Two classes at 2 x 2 positions; one label is ignored.
TEST_F(EvaluateReport, SegmentationByIou) {
  // Class 1 is predicted where the second channel is larger: 0 1 / 1 1, then 0 0 / 0 1.
  WriteSet("set", {2, 2, 2}, {{1, 0, 0, 0, 0, 1, 1, 1}, {1, 1, 1, 0, 0, 0, 0, 1}}, {});
  WriteSet("maps", {1, 2, 2}, {{0, 1, 0, 255}, {0, 0, 1, 1}}, {});
  const ProcessResult result =
      Evaluate(DataLayer("set", "top: 'data'", 2) + DataLayer("maps", "top: 'map'", 2) +
                   "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'map' "
                   "top: 'l' loss_param { ignore_label: 255 } }\n",
               {"--report=out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Class 0: 3 right, 1 taken for 1, 1 wrongly taken for it. Class 1: 2 right.
  const Table table = Csv("out/per_class.csv");
  EXPECT_EQ(table[1][2], "0.6");
  EXPECT_EQ(table[2][2], "0.5");
  EXPECT_EQ(table[1][6], "4");
  const std::string summary = temp_.Read("out/summary.json");
  EXPECT_TRUE(Contains(summary, "\"mean_iou\": 0.55")) << summary;
  EXPECT_TRUE(Contains(summary, "\"pixel_accuracy\": 0.714285714")) << summary;
  EXPECT_TRUE(Contains(result.out, "mean IoU 0.5500")) << result.out;
}

// Two images. Class 1 has an object in each: found first (score 0.9), missed (0.8), found (0.6)
// with a smaller overlap of 0.6. Class 2 does not occur.
TEST_F(EvaluateReport, DetectionByEachRule) {
  WriteSet("boxes", {1, 2, 7},
           {{0, 1, 0.9F, 0.1F, 0.1F, 0.5F, 0.5F, 0, 1, 0.8F, 0.6F, 0.6F, 0.9F, 0.9F},
            {0, 1, 0.6F, 0.2F, 0.2F, 0.7F, 0.5F, -1, -1, -1, -1, -1, -1, -1}},
           {});
  WriteSet("truth", {1, 1, 8},
           {{0, 1, 0, 0.1F, 0.1F, 0.5F, 0.5F, 0}, {0, 1, 0, 0.2F, 0.2F, 0.7F, 0.7F, 0}}, {});
  const std::string net =
      DataLayer("boxes", "top: 'found'", 1) + DataLayer("truth", "top: 'objects'", 1) +
      "layer { name: 'judge' type: 'DetectionEvaluate' bottom: 'found' bottom: 'objects' "
      "top: 'judged' detection_evaluate_param { num_classes: 3 background_label_id: 0 } }\n";
  const ProcessResult result = Evaluate(net, {"--report=out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Table table = Csv("out/per_class.csv");
  ASSERT_EQ(table.size(), 3U);
  EXPECT_EQ(table[1][2], "2");
  EXPECT_EQ(table[1][3], "3");
  EXPECT_NEAR(std::stod(table[1][4]), (6 + 5 * 2.0 / 3) / 11, 1e-5);
  EXPECT_NEAR(std::stod(table[1][5]), 0.5 + 0.5 * 2 / 3, 1e-5);
  // Overlaps 0.50, 0.55, 0.60 (rounded in f32: 0.6 is reached or not) have both.
  const double both = (51 + 50 * 2.0 / 3) / 101;
  const double one = 51.0 / 101;
  const double coco = std::stod(table[1][7]);
  EXPECT_TRUE(std::abs(coco - (3 * both + 7 * one) / 10) < 1e-5 ||
              std::abs(coco - (2 * both + 8 * one) / 10) < 1e-5)
      << coco;
  EXPECT_EQ(table[2][4], "");
  EXPECT_TRUE(Contains(temp_.Read("out/summary.json"), "\"kind\": \"detection\""));
  // SSD's rule: the missing class counts as 0.
  EXPECT_TRUE(Contains(result.out, "judged = 0.416667 (mean average precision, Integral)"))
      << result.out;
  EXPECT_FALSE(Contains(result.err, "left out")) << result.err;
  const ProcessResult voc07 = Evaluate(net, {"--ap_version=11point"});
  EXPECT_TRUE(Contains(voc07.out, "judged = 0.424242 (mean average precision, 11point)"))
      << voc07.out;
  const ProcessResult unknown = Evaluate(net, {"--ap_version=VOC"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(Contains(unknown.err, "'VOC' is not 11point, MaxIntegral or Integral"))
      << unknown.err;
}

// The boxes are exactly the two priors; the first contains an object.
TEST_F(EvaluateReport, DetectionOutputWithoutAJudge) {
  WriteSet("loc", {8, 1, 1}, {std::vector<float>(8, 0)}, {});
  WriteSet("conf", {4, 1, 1}, {{0.1F, 0.9F, 0.6F, 0.4F}}, {});
  WriteSet("prior", {2, 8, 1},
           {{0.1F, 0.1F, 0.5F, 0.5F, 0.6F, 0.6F, 0.9F, 0.9F, 0.1F, 0.1F, 0.2F, 0.2F, 0.1F, 0.1F,
             0.2F, 0.2F}},
           {});
  WriteSet("truth", {1, 1, 8}, {{0, 1, 0, 0.1F, 0.1F, 0.5F, 0.5F, 0}}, {});
  std::string net;
  for (const char* set : {"loc", "conf", "prior", "truth"}) {
    net += DataLayer(set, "top: '" + std::string(set) + "'", 1);
  }
  net += R"(
layer { name: 'l' type: 'Flatten' bottom: 'loc' top: 'l' }
layer { name: 'c' type: 'Flatten' bottom: 'conf' top: 'c' }
layer { name: 'p' type: 'Reshape' bottom: 'prior' top: 'p' reshape_param { shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: 'found' type: 'DetectionOutput' bottom: 'l' bottom: 'c' bottom: 'p' top: 'found'
  detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.45 } confidence_threshold: 0.01
    keep_top_k: 10 code_type: CENTER_SIZE } }
)";
  const ProcessResult without = Evaluate(net, {"--report=out"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_TRUE(Contains(without.err, "name the blob of true boxes with --label")) << without.err;
  const ProcessResult result = Evaluate(net, {"--report=out", "--label=truth"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Table table = Csv("out/per_class.csv");
  EXPECT_EQ(table[1][2], "1");
  EXPECT_EQ(table[1][3], "2");
  EXPECT_EQ(table[1][4], "1");
  EXPECT_TRUE(Contains(result.out, "mAP VOC07 1.0000")) << result.out;
  const ProcessResult other = Evaluate(net, {"--report=out", "--label=loc"});
  EXPECT_TRUE(Contains(other.err, "expected boxes 1 x 1 x D x 7 and objects")) << other.err;
}

// One place for each half of the picture; the left one has an object, which the right box misses.
TEST_F(EvaluateReport, HeadOfYoloWithoutAJudge) {
  WriteSet("pred", {6, 1, 2}, {{0, 0, 0, 0, 0, 0, 0, 0, 3, -9, 9, 9}}, {});
  WriteSet("truth", {1, 1, 8}, {{0, 1, 0, 0, 0, 0.5F, 1, 0}}, {});
  const std::string net = DataLayer("pred", "top: 'pred'", 1) +
                          DataLayer("truth", "top: 'truth'", 1) +
                          "layer { name: 'found' type: 'YoloDetectionOutput' bottom: 'pred' top: "
                          "'found' yolo_detection_output_param { num_classes: 1 num_box: 1 biases: "
                          "1 biases: 1 } }";
  const ProcessResult result = Evaluate(net, {"--report=out", "--label=truth"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Table table = Csv("out/per_class.csv");
  ASSERT_EQ(table.size(), 2U) << "the background is no class";
  EXPECT_EQ(table[1][2], "1");
  EXPECT_EQ(table[1][3], "1");
  EXPECT_EQ(table[1][4], "1");
  EXPECT_TRUE(Contains(result.out, "mAP VOC07 1.0000")) << result.out;
}

}  // namespace
}  // namespace crema
