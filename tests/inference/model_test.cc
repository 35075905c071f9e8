// Models answer requests of any shape independently of each other.
#include "inference/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "core/strings.h"
#include "format/prototxt.h"
#include "support/gpu.h"
#include "support/serving_nets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Answer;
using test::Drawn;
using test::kSmallNet;
using test::ModelOf;
using test::ValuesOf;

std::string ModelError(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return error.what();
  }
  return "";
}

TEST(Model, SaysWhatItTakesAndGives) {
  const auto model = ModelOf(kSmallNet);
  ASSERT_EQ(model->inputs().size(), 1U);
  EXPECT_EQ(model->inputs()[0].name, "data");
  EXPECT_EQ(model->inputs()[0].dtype, DType::kF32);
  EXPECT_EQ(model->inputs()[0].shape, (std::vector<int64_t>{-1, 3, 12, 12}));
  ASSERT_EQ(model->outputs().size(), 1U);
  EXPECT_EQ(model->outputs()[0].name, "prob");
  EXPECT_EQ(model->outputs()[0].shape, (std::vector<int64_t>{-1, 10}));
  EXPECT_TRUE(model->Batches());
}

class Heard final : public LogSink {
 public:
  void Write(Severity, std::string_view message) override { all_ += message; }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
};

TEST(Model, TakesThePreprocessingOfItsNet) {
  const auto card_of = [](const std::string& fields, const ModelCard& card = {}) {
    const NetFile net =
        ParseNet(StrCat(kSmallNet, "preprocessing { ", fields, " }\n"), "net.prototxt");
    return Model::Make(net, {}, card, {}, test::TestRegistry(), NullSink())->card();
  };
  const Preprocessing made = card_of(
                                 "rgb: true mean: [1, 2, 3] fit: 'crop' short_side: 16 "
                                 "interpolation: 'area'")
                                 .preprocessing;
  EXPECT_EQ(made, (Preprocessing{.mean = {1, 2, 3},
                                 .rgb = true,
                                 .fit = ImageFit::kCrop,
                                 .short_side = 16,
                                 .interpolation = Interpolation::kArea}));
  const Preprocessing given{.scale = 0.5F};
  ModelCard own;
  own.preprocessing = given;
  EXPECT_EQ(card_of("rgb: true", own).preprocessing, given);
  const auto error_of = [&](const std::string& fields) {
    return ModelError([&] { card_of(fields); });
  };
  EXPECT_NE(error_of("fit: 'somehow'").find("net.prototxt:"), std::string::npos);
  EXPECT_NE(error_of("fit: 'somehow'").find("unknown fit 'somehow'"), std::string::npos);
  EXPECT_NE(error_of("pad: 256").find("out of range"), std::string::npos);
  EXPECT_NE(error_of("deviation: 0").find("standard deviation"), std::string::npos);
  EXPECT_NE(error_of("scale: 0").find("the scale is 0"), std::string::npos);
}

// Batch statistics would let requests affect each other.
TEST(Model, IsInPhaseTestWhateverTheNetSays) {
  const auto text = [](const std::string& phase) {
    return StrCat(R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 2 dim: 2 } } }
layer { name: "bn" type: "BatchNorm" bottom: "data" top: "bn" )",
                  phase, " }\nlayer { name: 'drop' type: 'Dropout' bottom: 'bn' top: 'prob' ",
                  phase, " }");
  };
  const Tensor input = Drawn({3, 4, 2, 2}, 1);
  ModelRunner plain(ModelOf(text("")));
  const std::vector<float> expected = Answer(&plain, input);
  for (const std::string& net : {"state { phase: TRAIN }" + text(""), text("phase: TRAIN")}) {
    Heard log;
    const auto model =
        Model::Make(ParseNet(net, "net.prototxt"), {}, {}, {}, test::TestRegistry(), log);
    ModelRunner runner(model);
    EXPECT_EQ(Answer(&runner, input), expected) << net;
    EXPECT_NE(log.all().find("says phase: TRAIN"), std::string::npos) << log.all();
    EXPECT_TRUE(model->Batches());
  }
}

TEST(Model, GivesOutputsInTheOrderOfTheNet) {
  const auto model = ModelOf(R"(
layer { name: "in" type: "Input" top: "x" top: "y" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "z" type: "Sigmoid" bottom: "x" top: "z" }
layer { name: "a" type: "TanH" bottom: "y" top: "a" }
)");
  ASSERT_EQ(model->outputs().size(), 2U);
  EXPECT_EQ(model->outputs()[0].name, "z");
  EXPECT_EQ(model->outputs()[1].name, "a");
}

// Smaller requests after larger ones with values ten times as large.
TEST(ModelRunner, PartialBatchesNeverSeeOlderRequests) {
  const auto model = ModelOf(kSmallNet);
  ModelRunner used(model);
  uint64_t seed = 0;
  for (const int64_t batch : {4, 1, 3, 4, 2, 1, 7, 1, 4}) {
    const Tensor input = Drawn({batch, 3, 12, 12}, ++seed, batch > 3 ? 10 : 1);
    ModelRunner fresh(ModelOf(kSmallNet));
    const std::vector<float> expected = Answer(&fresh, input);
    EXPECT_EQ(Answer(&used, input), expected) << batch;
    EXPECT_EQ(used.Output("prob").shape(), Shape({batch, 10}));
    for (int64_t n = 0; n < batch; ++n) {
      double sum = 0;
      for (int64_t c = 0; c < 10; ++c) sum += expected[static_cast<size_t>(n * 10 + c)];
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(ModelRunner, InputsChangeTheirSizesBackAndForth) {
  const auto model = ModelOf(kSmallNet, {.max_plans = 3});
  ModelRunner used(model);
  uint64_t seed = 0;
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
           {12, 12}, {40, 9}, {5, 5}, {12, 12}, {1, 1}, {40, 9}, {17, 23}, {12, 12}}) {
    const Tensor input = Drawn({2, 3, height, width}, ++seed);
    ModelRunner fresh(ModelOf(kSmallNet));
    EXPECT_EQ(Answer(&used, input), Answer(&fresh, input)) << height << "x" << width;
  }
}

TEST(ModelRunner, ManyThreadsShareAModel) {
  const auto model = ModelOf(kSmallNet, {.max_plans = 2});  // plans come and go
  const std::vector<int64_t> batches = {1, 3, 2, 1, 4, 2, 3, 1};
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < batches.size(); ++i) {
    ModelRunner fresh(ModelOf(kSmallNet));
    expected.push_back(Answer(&fresh, Drawn({batches[i], 3, 12, 12}, i)));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      ModelRunner runner(model);
      for (size_t k = 0; k < 4 * batches.size(); ++k) {
        const size_t i = (k + t) % batches.size();
        wrong[t] += Answer(&runner, Drawn({batches[i], 3, 12, 12}, i)) != expected[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

struct BadRequest {
  std::string name;
  std::vector<NamedTensor> inputs;
  std::string expect;
};

TEST(ModelRunner, BadRequestsAreRefusedAndItGoesOn) {
  const auto model = ModelOf(kSmallNet, {.max_elements = 10'000});
  ModelRunner runner(model);
  const Tensor good = Drawn({2, 3, 12, 12}, 1);
  const Tensor empty({0, 3, 12, 12}, DType::kF32);
  const Tensor doubles({2, 3, 12, 12}, DType::kF64);
  const Tensor channels = Drawn({2, 4, 12, 12}, 1);
  const Tensor flat = Drawn({2, 432}, 1);
  const Tensor large = Drawn({1, 3, 100, 100}, 1);
  const std::vector<BadRequest> requests = {
      {"none", {}, "input 'data' is missing"},
      {"unknown", {{"dta", good.view()}}, "no input 'dta' (did you mean 'data'?)"},
      {"twice", {{"data", good.view()}, {"data", good.view()}}, "'data' is given twice"},
      {"also", {{"data", good.view()}, {"prob", good.view()}}, "no input 'prob'"},
      {"type", {{"data", doubles.view()}}, "has elements of type f32, not f64"},
      {"empty", {{"data", empty.view()}}, "'data' of 0x3x12x12 has no elements"},
      {"gone", {{"data", ConstTensorView(nullptr, {1, 3, 4, 4}, DType::kF32)}}, "are not there"},
      {"channels", {{"data", channels.view()}}, "conv1"},
      {"flat", {{"data", flat.view()}}, "pool"},
      {"large", {{"data", large.view()}}, "more elements than the 10000"},
  };
  const std::vector<float> expected = Answer(&runner, good);
  for (const BadRequest& request : requests) {
    const std::string message = ModelError([&] { runner.Run(request.inputs); });
    EXPECT_NE(message.find(request.expect), std::string::npos) << request.name << ": " << message;
    EXPECT_NE(ModelError([&] { runner.Output("prob"); }), "")
        << request.name;  // not an older answer
    EXPECT_EQ(Answer(&runner, good), expected) << request.name;
  }
  EXPECT_NE(ModelError([&] { runner.Output("data"); }).find("no output 'data'"), std::string::npos);
}

// The shape of the weights fixes the input size here.
TEST(Model, RefusesShapesThatItsWeightsDoNotFit) {
  const auto model = ModelOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
)");
  const Shape other({1, 2, 5, 4});
  const std::string message = ModelError([&] { model->PlanFor({&other, 1}); });
  EXPECT_NE(message.find("\"fc\""), std::string::npos) << message;
  EXPECT_NE(message.find("weight would be 3x40, but it is 3x32"), std::string::npos) << message;
  ModelRunner runner(model);
  EXPECT_EQ(Answer(&runner, Drawn({5, 2, 4, 4}, 1), "x", "y").size(), 15U);
}

// Errors that only occur at run time.
TEST(ModelRunner, GoesOnAfterAnErrorInTheMiddleOfThePass) {
  const auto model = ModelOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "e" type: "Embed" bottom: "x" top: "e" embed_param { input_dim: 5 num_output: 4
  bias_term: false weight_filler { type: "gaussian" std: 1 } } }
layer { name: "s" type: "Sigmoid" bottom: "e" top: "y" }
)");
  ModelRunner runner(model);
  Tensor words({2, 3}, DType::kF32);
  const std::vector<float> expected = Answer(&runner, words, "x", "y");
  words.view().span<float>()[4] = 17;
  EXPECT_THROW(Answer(&runner, words, "x", "y"), Error);
  words.view().span<float>()[4] = 0;
  EXPECT_EQ(Answer(&runner, words, "x", "y"), expected);
}

TEST(Model, KeepsABoundedNumberOfPlans) {
  const auto model = ModelOf(kSmallNet, {.max_plans = 2});
  const auto plan = [&](int64_t batch) {
    const Shape shape({batch, 3, 12, 12});
    return model->PlanFor({&shape, 1});
  };
  const std::weak_ptr<const Plan> five = plan(5);
  const std::weak_ptr<const Plan> six = plan(6);
  EXPECT_EQ(plan(5), five.lock());
  plan(7);  // six was used most recently
  EXPECT_FALSE(five.expired());
  EXPECT_TRUE(six.expired());
  EXPECT_EQ(plan(6)->values[0].spec.shape, Shape({6, 3, 12, 12}));
}

TEST(Model, PlansAreOfNumberedInputs) {
  const auto model = ModelOf(kSmallNet);
  const std::vector<Shape> two(2, Shape({1, 3, 12, 12}));
  EXPECT_NE(ModelError([&] { model->PlanFor(two); }).find("has 1 inputs, not 2"),
            std::string::npos);
}

// In Caffe, `cont` of 1 continues from the hidden state of the previous call.
TEST(ModelRunner, HiddenStatesDoNotReachTheNextRequest) {
  const auto model = ModelOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 3 dim: 2 } } }
layer { name: "r" type: "LSTM" bottom: "x" bottom: "c" top: "y"
  recurrent_param { num_output: 5 weight_filler { type: "xavier" } } }
)");
  EXPECT_FALSE(model->Batches());
  Tensor cont({3, 2}, DType::kF32);
  std::ranges::fill(cont.view().span<float>(), 1.0F);
  const Tensor first = Drawn({3, 2, 4}, 1);
  const Tensor second = Drawn({3, 2, 4}, 2);
  const auto answer = [&](ModelRunner* runner, const Tensor& x) {
    const NamedTensor inputs[] = {{"c", std::as_const(cont).view()}, {"x", x.view()}};
    runner->Run(inputs);
    return ValuesOf(runner->Output("y"));
  };
  ModelRunner runner(model);
  ModelRunner fresh(model);
  answer(&runner, first);
  EXPECT_EQ(answer(&runner, second), answer(&fresh, second));
}

TEST(Model, TrainingNetsAndWritersAreRefused) {
  const std::string message = ModelError([] {
    ModelOf(R"(layer { name: "d" type: "Data" top: "x" data_param { source: "nowhere" } })");
  });
  EXPECT_NE(message.find("this is a net for training"), std::string::npos) << message;
  const std::string constant = ModelError([] {
    ModelOf(
        R"(layer { name: "p" type: "Parameter" top: "x" parameter_param { shape { dim: 1 } } })");
  });
  EXPECT_NE(constant.find("the net has no input"), std::string::npos) << constant;
#ifdef CREMA_HAVE_HDF5
  const std::string writer = ModelError([] {
    ModelOf(StrCat(kSmallNet, R"(layer { name: "w" type: "HDF5Output" bottom: "prob" bottom: "prob"
        hdf5_output_param { file_name: "out.h5" } })"));
  });
  EXPECT_NE(writer.find("writes a file"), std::string::npos) << writer;
#endif
}

// Boxes of one prior per image; the text of the net refers to files.
std::string DetectorText(const std::string& folder) {
  return StrCat(R"(
layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "prior" type: "Input" top: "prior" input_param { shape { dim: 1 dim: 2 dim: 4 } } }
layer { name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "found"
  detection_output_param { num_classes: 2 confidence_threshold: 0.5 keep_top_k: 5
    nms_param { nms_threshold: 0.5 }
    save_output_param { output_directory: ")",
                folder, R"(" output_name_prefix: "x" output_format: "VOC" label_map_file: "none"
      name_size_file: "none" num_test_image: 1 } } }
)");
}

TEST(ModelRunner, OutputsMayHaveAsManyRowsAsThereAreBoxes) {
  const test::TempDir folder;
  const auto model = ModelOf(DetectorText(folder.File("boxes")));
  EXPECT_FALSE(model->Batches());
  EXPECT_EQ(model->outputs()[0].shape, (std::vector<int64_t>{1, 1, -1, 7}));
  Tensor loc({2, 4}, DType::kF32);
  Tensor conf({2, 2}, DType::kF32);
  Tensor prior({1, 2, 4}, DType::kF32);
  const float box[] = {0.1F, 0.2F, 0.5F, 0.6F, 0.1F, 0.1F, 0.2F, 0.2F};
  std::ranges::copy(box, prior.view().data<float>());
  ModelRunner runner(model);
  const auto run = [&](float first, float second) {
    conf.view().data<float>()[1] = first;
    conf.view().data<float>()[3] = second;
    const NamedTensor inputs[] = {{"loc", std::as_const(loc).view()},
                                  {"conf", std::as_const(conf).view()},
                                  {"prior", std::as_const(prior).view()}};
    runner.Run(inputs);
    return runner.Output("found").shape();
  };
  EXPECT_EQ(run(0.9F, 0.8F), Shape({1, 1, 2, 7}));
  EXPECT_EQ(run(0.9F, 0.1F), Shape({1, 1, 1, 7}));
  EXPECT_EQ(run(0.9F, 0.8F), Shape({1, 1, 2, 7}));
  EXPECT_FALSE(std::filesystem::exists(folder.File("boxes")));
}

TEST(ModelRunner, GivesMemoryOfTheHostFromAGpuToo) {
  const auto on_gpu = ModelOf(kSmallNet, {.device = test::GpuDevice()});
  const auto on_cpu = ModelOf(kSmallNet);
  ModelRunner gpu(on_gpu);
  ModelRunner cpu(on_cpu);
  for (const int64_t batch : {3, 1, 3}) {
    const Tensor input = Drawn({batch, 3, 12, 12}, 5);
    const std::vector<float> expected = Answer(&cpu, input);
    const std::vector<float> given = Answer(&gpu, input);
    EXPECT_EQ(gpu.Output("prob").device(), Device());
    ASSERT_EQ(given.size(), expected.size());
    // The order of summation differs there.
    for (size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], expected[i], 1e-5);
  }
}

}  // namespace
}  // namespace crema
