// crema/deploy.h from the view of a foreign program.
#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "api/model_files.h"
#include "crema/deploy.h"
#include "support/region_net.h"

namespace crema::api_test {
namespace {

using deploy::Code;
using deploy::Model;
using deploy::Runner;
using deploy::Type;

class DeployApi : public WithModel {};

std::vector<float> Values(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1U << 24);
  }
  return values;
}

std::vector<float> Answer(Runner* runner, const std::vector<float>& values, int64_t batch) {
  runner->Run({{"data", Type::kFloat32, {batch, 3, 12, 12}, values.data()}});
  const deploy::Tensor output = runner->Output("prob");
  return {output.floats(), output.floats() + output.count()};
}

void ExpectError(Code code, const std::string& part, const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "no error: " << part;
  } catch (const deploy::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(DeployApi, SaysWhatAModelIs) {
  const Model model = Model::Open(this->model());
  EXPECT_EQ(model.name(), "three");
  EXPECT_EQ(model.task(), "classify");
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"ant", "bee"}));
  ASSERT_EQ(model.inputs().size(), 1U);
  EXPECT_EQ(model.inputs()[0].name, "data");
  EXPECT_EQ(model.inputs()[0].type, Type::kFloat32);
  EXPECT_EQ(model.inputs()[0].shape, (std::vector<int64_t>{-1, 3, 12, 12}));
  ASSERT_EQ(model.outputs().size(), 1U);
  EXPECT_EQ(model.outputs()[0].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_TRUE(model.Batches());
  EXPECT_NE(std::string(deploy::Version()), "");
}

TEST_F(DeployApi, OpensOnnxAndSeveralWeights) {
  const std::vector<float> values = Values(2 * 432, 7);
  Runner expected(Model::Open(this->model()));
  const std::vector<float> answer = Answer(&expected, values, 2);
  const Model onnx = Model::Open(this->onnx());
  EXPECT_EQ(onnx.task(), "classify");
  EXPECT_EQ(onnx.labels(), (std::vector<std::string>{"ant", "bee"}));
  Runner from_onnx(onnx);
  Runner from_caffe(Model::FromCaffe(net(), weights()));
  for (Runner* runner : {&from_onnx, &from_caffe}) {
    const std::vector<float> found = Answer(runner, values, 2);
    ASSERT_EQ(found.size(), answer.size());
    for (size_t i = 0; i < answer.size(); ++i) EXPECT_NEAR(found[i], answer[i], 1e-6);
  }
  const std::string first = weights().substr(0, weights().find(','));
  ExpectError(Code::kInvalidArgument, "layer \"ip\"", [&] { Model::FromCaffe(net(), first); });
  ExpectError(Code::kNotFound, "no such file", [&] { Model::FromCaffe(net(), first + ",none"); });
  ExpectError(Code::kNotFound, "no such file", [] { Model::Open("none.onnx"); });
  Write("m.onnx", "no model");
  ExpectError(Code::kDataLoss, "m.onnx", [&] { Model::Open(this->onnx()); });
}

TEST_F(DeployApi, ARunnerOutlivesItsModel) {
  std::vector<float> values = Values(432, 1);
  auto model = std::make_unique<Model>(Model::Open(this->model()));
  Runner first(*model);
  const std::vector<float> expected = Answer(&first, values, 1);
  model.reset();
  Runner moved(std::move(first));
  EXPECT_EQ(Answer(&moved, values, 1), expected);
}

TEST_F(DeployApi, EightThreadsGiveTheSameBytes) {
  const Model model = Model::Open(this->model());
  constexpr size_t kRequests = 6;
  std::vector<std::vector<float>> expected;
  Runner alone(model);
  const auto request = [](size_t i) { return Values(432 * (1 + i % 3), static_cast<unsigned>(i)); };
  for (size_t i = 0; i < kRequests; ++i) {
    expected.push_back(Answer(&alone, request(i), static_cast<int64_t>(1 + i % 3)));
  }
  std::vector<int> wrong(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      Runner runner(model);
      for (size_t k = 0; k < 5 * kRequests; ++k) {
        const size_t i = (k + t) % kRequests;
        const auto answer = Answer(&runner, request(i), static_cast<int64_t>(1 + i % 3));
        wrong[t] += answer.size() != expected[i].size() ||
                    std::memcmp(answer.data(), expected[i].data(), answer.size() * 4) != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(DeployApi, ClassifiesImages) {
  const Model model = Model::Open(this->model());
  Runner runner(model);
  const std::string image = BytesOf(picture());
  const auto best = runner.Classify(image.data(), image.size(), 2);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_GE(best[0].score, best[1].score);
  const auto all = runner.Classify(image.data(), image.size(), 10);
  ASSERT_EQ(all.size(), 3U);
  for (const auto& one : all) {
    const std::vector<std::string> labels = {"ant", "bee", ""};
    EXPECT_EQ(one.label, labels.at(static_cast<size_t>(one.index)));
  }
  ExpectError(Code::kDataLoss, "the image", [&] { runner.Classify("no image", 8); });
  EXPECT_EQ(runner.Classify(image.data(), image.size(), 10)[0].score, all[0].score);
}

TEST_F(DeployApi, DetectsByACascade) {
  const Model model = Model::OpenCascade(cascade());
  EXPECT_EQ(model.task(), "detect");
  EXPECT_TRUE(model.inputs().empty() && model.outputs().empty() && !model.Batches());
  Runner runner(model);
  const std::string image = BytesOf(square());
  const auto found = runner.Detect(image.data(), image.size());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].index, 1);
  EXPECT_EQ((std::vector{found[0].left, found[0].top, found[0].right, found[0].bottom}),
            (std::vector<float>{6, 5, 23, 22}));
  ASSERT_EQ(found[0].keypoints.size(), 5U);
  EXPECT_EQ(found[0].keypoints[4].x, 14);
  EXPECT_TRUE(runner.Detect(image.data(), image.size(), 0.98).empty());
  const std::string colors = BytesOf(picture());
  EXPECT_TRUE(runner.Detect(colors.data(), colors.size()).empty()) << "smaller than a window";
  ExpectError(Code::kDataLoss, "the image", [&] { runner.Detect("no image", 8); });
  constexpr const char* kOnly = "a cascade: it detects objects in images only";
  ExpectError(Code::kInvalidArgument, kOnly, [&] { runner.Run({}); });
  ExpectError(Code::kInvalidArgument, kOnly, [&] { runner.Output("boxes"); });
  ExpectError(Code::kInvalidArgument, kOnly, [&] { runner.Classify(image.data(), image.size()); });
  ExpectError(Code::kInvalidArgument, kOnly, [&] { runner.Segment(image.data(), image.size()); });
  Remove("second.caffemodel");
  ExpectError(Code::kNotFound, "second.caffemodel: there is no such file",
              [&] { Model::OpenCascade(cascade()); });
  ExpectError(Code::kInvalidArgument, "has no stage of a cascade",
              [&] { Model::OpenCascade(regions_net()); });
}

TEST_F(DeployApi, ConfidenceIsThatOfTheModelUnlessGiven) {
  const std::string image = BytesOf(picture());
  Runner runner(Model::Open(confident()));
  EXPECT_EQ(runner.Detect(image.data(), image.size()).size(), 1U);
  EXPECT_TRUE(runner.Detect(image.data(), image.size(), 0.97).empty());
  ExpectError(Code::kInvalidArgument, "exported to find none below 0.9",
              [&] { runner.Detect(image.data(), image.size(), 0.6); });
  ExpectError(Code::kInvalidArgument, "confidence is -1",
              [&] { runner.Detect(image.data(), image.size(), -1); });
  EXPECT_EQ(runner.Detect(image.data(), image.size()).size(), 1U);
}

TEST_F(DeployApi, DetectsByRegions) {
  const Model model = Model::FromCaffe(regions_net(), regions_weights());
  Runner runner(model);
  const std::string image = test::PictureOfALamp();
  const auto found = runner.Detect(image.data(), image.size(), 0.6);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].index, 1);
  // The first place of a picture that was scaled by 37.5 to a short side of 600.
  EXPECT_NEAR(found[0].left, 0.5 * (1 + 16 / 37.5), 1e-6);
  EXPECT_NEAR(found[0].top, 0, 1e-6);
  EXPECT_NEAR(found[0].right, 1.5 * (1 + 16 / 37.5), 1e-6);
  EXPECT_NEAR(found[0].bottom, 1 + 16 / 37.5, 1e-6);
}
#endif

TEST_F(DeployApi, ErrorsHaveCodesAndRunnersGoOn) {
  ExpectError(Code::kNotFound, "no such file", [] { Model::Open("/no/such.crema"); });
  ExpectError(Code::kInvalidArgument, "threads",
              [&] { Model::Open(this->model(), {.threads = 0}); });
  ExpectError(Code::kInvalidArgument, "threads is 2147483647, expected 1 to 1024",
              [&] { Model::Open(this->model(), {.threads = 2147483647}); });
  std::string bytes = BytesOf(this->model());
  bytes[bytes.size() / 2] ^= 1;
  Write("altered.crema", bytes);
  const std::string altered =
      this->model().replace(this->model().rfind("m.crema"), 7, "altered.crema");
  ExpectError(Code::kDataLoss, "altered", [&] { Model::Open(altered); });
  const Model model = Model::Open(this->model());
  Runner runner(model);
  const std::vector<float> values = Values(432, 3);
  ExpectError(Code::kInvalidArgument, "no outputs", [&] { runner.Output("prob"); });
  const std::vector<float> expected = Answer(&runner, values, 1);
  ExpectError(Code::kInvalidArgument, "'data' is missing", [&] { runner.Run({}); });
  ExpectError(Code::kInvalidArgument, "negative dimension", [&] {
    runner.Run({{"data", Type::kFloat32, {-1, 3, 12, 12}, values.data()}});
  });
  ExpectError(Code::kInvalidArgument, "more than 2147483647", [&] {
    runner.Run({{"data", Type::kFloat32, {1 << 30, 1 << 30}, values.data()}});
  });
  ExpectError(Code::kInvalidArgument, "unknown type", [&] {
    runner.Run({{"data", static_cast<Type>(9), {1, 3, 12, 12}, values.data()}});
  });
  ExpectError(Code::kInvalidArgument, "are not there", [&] {
    runner.Run({{"data", Type::kFloat32, {1, 3, 12, 12}, nullptr}});
  });
  EXPECT_EQ(Answer(&runner, values, 1), expected);
  ExpectError(Code::kInvalidArgument, "no output 'prop' (did you mean 'prob'?)",
              [&] { runner.Output("prop"); });
}

TEST_F(DeployApi, ExamplesRun) {
  EXPECT_NE(OutputOf("threads", model() + " 4").find("0."), std::string::npos);
  EXPECT_EQ(ExitCodeOf("threads", model() + " -1"), 2);
  EXPECT_EQ(ExitCodeOf("threads", model() + " 1000000"), 2);
  EXPECT_EQ(ExitCodeOf("threads", "/no/such.crema 2"), 1);
  EXPECT_EQ(OutputOf("run", model()).rfind("prob: 1 3\n", 0), 0U);
#ifdef CREMA_HAVE_OPENCV
  EXPECT_NE(OutputOf("classify", model() + " " + picture()).find(" bee"), std::string::npos);
#endif
}

}  // namespace
}  // namespace crema::api_test
