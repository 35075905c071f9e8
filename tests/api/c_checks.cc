// crema/crema.h from the view of a foreign program.
#include <cstring>
#include <vector>

#include "api/model_files.h"
#include "crema/crema.h"

namespace crema::api_test {
namespace {

class CApi : public WithModel {
 protected:
  void SetUp() override {
    WithModel::SetUp();
    ASSERT_EQ(crema_model_open(this->model().c_str(), nullptr, &handle_, &error_), CREMA_OK)
        << error_.message;
    ASSERT_EQ(crema_runner_new(handle_, &runner_, &error_), CREMA_OK) << error_.message;
  }
  void TearDown() override {
    crema_model_free(handle_);  // before its runner
    crema_runner_free(runner_);
  }
  crema_status Run(const std::vector<float>& values, int64_t batch) {
    const int64_t shape[] = {batch, 3, 12, 12};
    const crema_tensor input = {"data", CREMA_FLOAT32, 4, shape, values.data()};
    return crema_runner_run(runner_, &input, 1, &error_);
  }

  crema_model* handle_ = nullptr;
  crema_runner* runner_ = nullptr;
  crema_error error_ = {CREMA_OK, ""};
};

TEST_F(CApi, RunsAModel) {
  EXPECT_STREQ(crema_model_name(handle_), "three");
  EXPECT_STREQ(crema_model_task(handle_), "classify");
  ASSERT_EQ(crema_model_label_count(handle_), 2U);
  EXPECT_STREQ(crema_model_label(handle_, 1), "bee");
  EXPECT_EQ(crema_model_label(handle_, 2), nullptr);
  ASSERT_EQ(crema_model_input_count(handle_), 1U);
  crema_tensor info;
  ASSERT_EQ(crema_model_input(handle_, 0, &info, nullptr), CREMA_OK);
  EXPECT_STREQ(info.name, "data");
  ASSERT_EQ(info.axes, 4U);
  EXPECT_EQ(info.shape[0], -1);
  EXPECT_EQ(info.data, nullptr);
  ASSERT_EQ(Run(std::vector<float>(2 * 432, 0.5F), 2), CREMA_OK) << error_.message;
  crema_tensor output;
  ASSERT_EQ(crema_runner_output(runner_, "prob", &output, &error_), CREMA_OK);
  ASSERT_EQ(output.axes, 2U);
  EXPECT_EQ(output.shape[0], 2);
  const auto* values = static_cast<const float*>(output.data);
  EXPECT_NEAR(values[0] + values[1] + values[2], 1, 1e-5);
  EXPECT_EQ(std::memcmp(values, values + 3, 3 * sizeof(float)), 0);
}

TEST_F(CApi, OpensOnnxAndCaffe) {
  const std::vector<float> values(432, 0.25F);
  ASSERT_EQ(Run(values, 1), CREMA_OK) << error_.message;
  crema_tensor output;
  ASSERT_EQ(crema_runner_output(runner_, "prob", &output, &error_), CREMA_OK);
  const auto* answer = static_cast<const float*>(output.data);
  const std::vector<float> expected(answer, answer + 3);
  for (const bool caffe : {false, true}) {
    crema_model_free(handle_);
    crema_runner_free(runner_);
    handle_ = nullptr;
    runner_ = nullptr;
    ASSERT_EQ(
        caffe ? crema_model_from_caffe(net().c_str(), weights().c_str(), nullptr, &handle_, &error_)
              : crema_model_open(onnx().c_str(), nullptr, &handle_, &error_),
        CREMA_OK)
        << error_.message;
    ASSERT_EQ(crema_runner_new(handle_, &runner_, &error_), CREMA_OK);
    ASSERT_EQ(Run(values, 1), CREMA_OK) << error_.message;
    ASSERT_EQ(crema_runner_output(runner_, "prob", &output, &error_), CREMA_OK);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(static_cast<const float*>(output.data)[i], expected[i], 1e-6);
    }
  }
  crema_model* none = nullptr;
  EXPECT_EQ(crema_model_from_caffe(net().c_str(), "none", nullptr, &none, &error_),
            CREMA_NOT_FOUND);
  EXPECT_EQ(crema_model_from_caffe(net().c_str(), nullptr, nullptr, &none, &error_),
            CREMA_INVALID_ARGUMENT);
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(CApi, ConfidenceIsThatOfTheModelUnlessGiven) {
  crema_model* detector = nullptr;
  ASSERT_EQ(crema_model_open(confident().c_str(), nullptr, &detector, &error_), CREMA_OK);
  crema_runner* runner = nullptr;
  ASSERT_EQ(crema_runner_new(detector, &runner, &error_), CREMA_OK);
  const std::string image = BytesOf(picture());
  size_t count = 0;
  EXPECT_EQ(crema_runner_detect(runner, image.data(), image.size(), CREMA_DEFAULT_CONFIDENCE,
                                nullptr, 0, &count, &error_),
            CREMA_OK)
      << error_.message;
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(
      crema_runner_detect(runner, image.data(), image.size(), -0.5, nullptr, 0, &count, &error_),
      CREMA_INVALID_ARGUMENT);
  crema_runner_free(runner);
  crema_model_free(detector);
}

TEST_F(CApi, DetectsInImages) {
  crema_model* detector = nullptr;
  ASSERT_EQ(crema_model_open(this->detector().c_str(), nullptr, &detector, &error_), CREMA_OK)
      << error_.message;
  crema_runner* runner = nullptr;
  ASSERT_EQ(crema_runner_new(detector, &runner, &error_), CREMA_OK);
  const std::string image = BytesOf(picture());
  crema_detection found[2];
  size_t count = 0;
  ASSERT_EQ(crema_runner_detect(runner, image.data(), image.size(), 0.6, found, 2, &count, &error_),
            CREMA_OK)
      << error_.message;
  EXPECT_EQ(count, 300U);
  EXPECT_EQ(found[1].index, 3);
  EXPECT_EQ(found[1].score, 3);
  EXPECT_STREQ(found[1].label, "dog");
  EXPECT_FLOAT_EQ(found[1].box[0], 1.75F);  // of 7 x 5 pixels; the input has 12 x 12
  EXPECT_FLOAT_EQ(found[1].box[3], 1.25F);
  ASSERT_EQ(found[1].keypoint_count, 1U);
  EXPECT_FLOAT_EQ(found[1].keypoints[0], 1.75F);
  EXPECT_FLOAT_EQ(found[1].keypoints[1], 1.25F);
  EXPECT_EQ(crema_runner_detect(runner, image.data(), image.size(), 2, found, 2, &count, &error_),
            CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(
      crema_runner_detect(runner_, image.data(), image.size(), 0.6, found, 2, &count, &error_),
      CREMA_INVALID_ARGUMENT)
      << "a model that classifies";
  EXPECT_NE(std::strstr(error_.message, "DetectionOutput"), nullptr) << error_.message;
  crema_runner_free(runner);
  crema_model_free(detector);
}

TEST_F(CApi, DetectsByACascade) {
  crema_model* faces = nullptr;
  ASSERT_EQ(crema_model_open_cascade(cascade().c_str(), nullptr, &faces, &error_), CREMA_OK)
      << error_.message;
  EXPECT_STREQ(crema_model_task(faces), "detect");
  EXPECT_EQ(crema_model_input_count(faces), 0U);
  crema_runner* runner = nullptr;
  ASSERT_EQ(crema_runner_new(faces, &runner, &error_), CREMA_OK);
  const std::string image = BytesOf(square());
  crema_detection found[2];
  size_t count = 0;
  ASSERT_EQ(crema_runner_detect(runner, image.data(), image.size(), 0, found, 2, &count, &error_),
            CREMA_OK)
      << error_.message;
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(found[0].box[2], 23);
  EXPECT_EQ(found[0].keypoint_count, 5U);
  EXPECT_EQ(crema_runner_run(runner, nullptr, 0, &error_), CREMA_INVALID_ARGUMENT);
  crema_runner_free(runner);
  crema_model_free(faces);
  EXPECT_EQ(crema_model_open_cascade("missing.txt", nullptr, &faces, &error_), CREMA_NOT_FOUND);
  EXPECT_EQ(faces, nullptr);
}

TEST_F(CApi, SegmentsImages) {
  crema_model* segmenter = nullptr;
  ASSERT_EQ(crema_model_open(this->segmenter().c_str(), nullptr, &segmenter, &error_), CREMA_OK)
      << error_.message;
  crema_runner* runner = nullptr;
  ASSERT_EQ(crema_runner_new(segmenter, &runner, &error_), CREMA_OK);
  std::string image = "P6\n4 3\n255\n";
  const std::string halves = std::string("\xF0\0\0\xF0\0\0\0\xF0\0\0\xF0\0", 12);  // red, green
  for (int row = 0; row < 3; ++row) image += halves;
  const unsigned char* classes = nullptr;
  size_t width = 0, height = 0;
  ASSERT_EQ(
      crema_runner_segment(runner, image.data(), image.size(), &classes, &width, &height, &error_),
      CREMA_OK)
      << error_.message;
  ASSERT_EQ(width, 4U);
  ASSERT_EQ(height, 3U);
  const std::vector<unsigned char> expected = {2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1};
  EXPECT_EQ(std::vector<unsigned char>(classes, classes + 12), expected);
  EXPECT_EQ(crema_runner_segment(runner, "no image", 8, &classes, &width, &height, &error_),
            CREMA_DATA_LOSS);
  EXPECT_EQ(width, 0U);
  EXPECT_EQ(
      crema_runner_segment(runner_, image.data(), image.size(), &classes, &width, &height, &error_),
      CREMA_INVALID_ARGUMENT)
      << "a model that classifies";
  EXPECT_NE(std::strstr(error_.message, "segmentation needs scores"), nullptr) << error_.message;
  crema_runner_free(runner);
  crema_model_free(segmenter);
}

TEST_F(CApi, ClassifiesImages) {
  const std::string image = BytesOf(picture());
  crema_prediction best[2];
  size_t count = 9;
  ASSERT_EQ(crema_runner_classify(runner_, image.data(), image.size(), best, 2, &count, &error_),
            CREMA_OK)
      << error_.message;
  EXPECT_EQ(count, 2U);
  EXPECT_GE(best[0].score, best[1].score);
  EXPECT_EQ(crema_runner_classify(runner_, "x", 1, best, 2, &count, &error_), CREMA_DATA_LOSS);
  EXPECT_EQ(count, 0U);
}
#endif

TEST_F(CApi, FailuresSayWhy) {
  crema_model* none = handle_;
  EXPECT_EQ(crema_model_open("/no/such.crema", nullptr, &none, &error_), CREMA_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(error_.status, CREMA_NOT_FOUND);
  EXPECT_NE(std::strstr(error_.message, "no such file"), nullptr) << error_.message;
  crema_options options = {};
  EXPECT_EQ(crema_model_open(model().c_str(), &options, &none, &error_), CREMA_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "struct_size"), nullptr);
  options = {sizeof(options), 1, 1, -5};
  EXPECT_EQ(crema_model_open(model().c_str(), &options, &none, &error_), CREMA_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "gpu is -5"), nullptr) << error_.message;
  EXPECT_EQ(crema_model_open(nullptr, nullptr, &none, nullptr), CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(crema_model_open("x", nullptr, nullptr, nullptr), CREMA_INVALID_ARGUMENT);
  crema_tensor tensor;
  EXPECT_EQ(crema_model_input(handle_, 1, &tensor, &error_), CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(crema_runner_output(runner_, "prob", &tensor, &error_), CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(Run(std::vector<float>(), -1), CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(crema_runner_run(runner_, nullptr, 1, &error_), CREMA_INVALID_ARGUMENT);
  const crema_tensor unnamed = {};
  EXPECT_EQ(crema_runner_run(runner_, &unnamed, 1, &error_), CREMA_INVALID_ARGUMENT);
  EXPECT_EQ(Run(std::vector<float>(432, 0.5F), 1), CREMA_OK);
  EXPECT_EQ(error_.status, CREMA_OK);
  crema_model_free(nullptr);
  crema_runner_free(nullptr);
}

// A long message is truncated between characters and zero-terminated.
TEST_F(CApi, MessagesEnd) {
  for (std::string path : {"", "x"}) {
    for (int i = 0; i < 2500; ++i) path += "\xC3\xBC";
    crema_model* none = nullptr;
    EXPECT_NE(crema_model_open(path.c_str(), nullptr, &none, &error_), CREMA_OK);
    const size_t length = std::strlen(error_.message);
    EXPECT_GE(length, sizeof(error_.message) - 2);
    EXPECT_LT(length, sizeof(error_.message));
    EXPECT_EQ(error_.message[length - 1], '\xBC');
  }
}

}  // namespace
}  // namespace crema::api_test
