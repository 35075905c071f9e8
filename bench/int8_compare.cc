// A net in single precision against itself in int8: accuracy and time, interleaved.
//   int8_compare net=deploy.prototxt [weights=FILE] [inputs=FILE labels=FILE | source=NET
//   batches=N]
//                [calibrate=IMAGES] [batch=1] [threads=2] [rule=percentile] [snr=20] [keep=a,b]
//                [rounds=30] [dump=PREFIX] [json=1] [out=FILE]
// `inputs` and `labels` are raw floats, image by image; `source` is a net whose data layer gives
// the blobs data and label. Without either, inputs are random, as weights are without a file.
// `dump` writes all outputs, in the order of the images, as PREFIX.fp32.NAME and PREFIX.int8.NAME;
// `out` writes the quantized net.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "compare/random_weights.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "quantization/quantize.h"
#include "runtime/weights.h"

namespace crema {
namespace {

using Settings = std::map<std::string, std::string>;

Settings ParseArguments(int count, char** arguments) {
  Settings settings = {{"calibrate", "64"},    {"batch", "1"}, {"threads", "2"},
                       {"rule", "percentile"}, {"snr", "20"},  {"rounds", "30"},
                       {"batches", "1"}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    settings[argument.substr(0, equals)] =
        equals == std::string::npos ? "1" : argument.substr(equals + 1);
  }
  return settings;
}

std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) Fail(ErrorCode::kNotFound, StrCat("cannot read ", path));
  std::vector<float> floats(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(floats.data()),
            static_cast<std::streamsize>(floats.size() * sizeof(float)));
  return floats;
}

struct Images {
  std::vector<float> pixels;
  std::vector<float> labels;
};

void Append(const ConstTensorView& view, std::vector<float>* floats) {
  if (!view.empty())
    floats->insert(floats->end(), view.span<float>().begin(), view.span<float>().end());
}

Images FromSource(const std::string& path, int64_t batches) {
  const NetFile file = ReadNet(path);
  NetParameter net = file.net;
  // Only what makes data.
  net.clear_layer();
  for (const LayerParameter& layer : file.net.layer()) {
    if (layer.bottom_size() == 0) *net.add_layer() = layer;
  }
  NetState state;
  state.set_phase(TEST);
  PlanOptions options{.backward = false};
  const Registry registry = BuiltinRegistry();
  std::vector<Problem> warnings;
  const auto plan = MakePlan(net, {}, state, registry, options, &warnings);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  Images images;
  for (int64_t b = 0; b < batches; ++b) {
    session.Forward();
    Append(session.Data("data"), &images.pixels);
    Append(session.Data("label"), &images.labels);
  }
  return images;
}

NetParameter ThatTakesStatistics(NetParameter net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.has_batch_norm_param()) layer.mutable_batch_norm_param()->clear_use_global_stats();
  }
  return net;
}

class Comparison {
 public:
  explicit Comparison(Settings settings) : settings_(std::move(settings)) {
    state_.set_phase(TEST);
    file_ = ReadNet(settings_["net"]);
    SourceShapes shapes;
    shapes.batch = Whole("batch");
    ReplaceSources(shapes, registry_, &file_.net);
    if (settings_.contains("weights")) {
      plan_ = PlanOf(file_.net, file_.source, TEST);
      auto weights = Weights::MakeToLoad(*plan_, 1);
      LoadFiles({.paths = {settings_["weights"]}}, *plan_, weights.get(), nullptr);
      weights_ = std::move(weights);
    } else {
      compare::SetFillers(&file_.net);
      plan_ = PlanOf(file_.net, file_.source, TEST);
      const auto training = PlanOf(ThatTakesStatistics(file_.net), {}, TRAIN);
      weights_ = compare::MakeRandomWeights(training, {}, static_cast<int>(Whole("threads")));
    }
    for (const PlannedLayer& layer : plan_->layers) {
      if (layer.type->name == "Input") input_ = layer.outputs[0];
    }
    ReadImages();
  }

  void Run() {
    QuantizeOptions options;
    options.rule = ParseRangeRule(settings_["rule"]);
    options.least_snr_db = std::stod(settings_["snr"]);
    options.threads = static_cast<int>(Whole("threads"));
    if (settings_.contains("keep")) options.keep_float = Split(settings_["keep"], ',');
    const int64_t calibrated = std::min(Whole("calibrate"), Count()) / Whole("batch");
    const CalibrationInputs inputs = [&](int64_t index, Session& session) {
      if (index >= std::max<int64_t>(calibrated, 1)) return false;
      Fill(index, &session);
      return true;
    };
    const auto start = std::chrono::steady_clock::now();
    const QuantizeResult result =
        QuantizeModel(file_.net, file_.source, state_, registry_, weights_, inputs, options);
    std::printf("%s", settings_.contains("json") ? (result.report.Json() + "\n").c_str()
                                                 : result.report.Text().c_str());
    std::printf("calibration took %.1f s\n", SecondsSince(start));
    if (settings_.contains("out")) std::ofstream(settings_["out"]) << PrintText(result.net);
    const auto int8 = PlanOf(result.net, {}, TEST);
    if (settings_.contains("plan")) std::printf("%s", DescribePlan(*int8).c_str());
    Session floats(plan_, weights_, ExecContext(static_cast<int>(Whole("threads")), 1));
    Session bytes(int8, weights_, ExecContext(static_cast<int>(Whole("threads")), 1));
    floats.FixWeights();
    bytes.FixWeights();
    Judge(&floats, &bytes);
    Race(&floats, &bytes);
  }

 private:
  static double SecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  int64_t Whole(const std::string& name) { return std::stoll(settings_.at(name)); }
  const Shape& InputShape() const { return plan_->values[static_cast<size_t>(input_)].spec.shape; }
  int64_t ImageSize() const { return InputShape().count(1); }
  int64_t Count() const { return static_cast<int64_t>(images_.pixels.size()) / ImageSize(); }

  std::shared_ptr<const Plan> PlanOf(const NetParameter& net, const SourceMap& source,
                                     Phase phase) {
    NetState state;
    state.set_phase(phase);
    PlanOptions options;
    options.backward = false;
    options.threads = static_cast<int>(Whole("threads"));
    std::vector<Problem> warnings;
    return MakePlan(net, source, state, registry_, options, &warnings);
  }

  void ReadImages() {
    if (settings_.contains("source")) {
      images_ = FromSource(settings_["source"], Whole("batches"));
    } else if (settings_.contains("inputs")) {
      images_.pixels = ReadFloats(settings_["inputs"]);
      if (settings_.contains("labels")) images_.labels = ReadFloats(settings_["labels"]);
    } else {
      images_.pixels.resize(static_cast<size_t>(4 * InputShape().count()));
      const RandomStream random(7, 0, 0);
      for (size_t i = 0; i < images_.pixels.size(); ++i) {
        images_.pixels[i] = static_cast<float>(random.Uniform(i)) * 4 - 2;
      }
    }
  }

  void Fill(int64_t batch, Session* session) {
    const TensorView x = session->MutableData(plan_->values[static_cast<size_t>(input_)].name);
    const int64_t images = InputShape()[0];
    for (int64_t i = 0; i < images; ++i) {
      const int64_t from = (batch * images + i) % Count();
      std::copy_n(images_.pixels.data() + from * ImageSize(), ImageSize(),
                  x.data<float>() + i * ImageSize());
    }
  }

  // Largest of each image of the first output of two axes or more.
  static std::vector<int64_t> Best(const ConstTensorView& y) {
    std::vector<int64_t> best;
    const int64_t classes = y.shape().count(1);
    for (int64_t n = 0; n < y.shape()[0]; ++n) {
      const float* row = y.data<float>() + n * classes;
      best.push_back(std::max_element(row, row + classes) - row);
    }
    return best;
  }

  void Dump(const std::string& kind, const Session& session) {
    if (!settings_.contains("dump")) return;
    for (int v : plan_->outputs) {
      const std::string& name = plan_->values[static_cast<size_t>(v)].name;
      std::ofstream file(StrCat(settings_["dump"], ".", kind, ".", name),
                         std::ios::binary | std::ios::app);
      const std::span<const float> y = session.Data(name).span<float>();
      file.write(reinterpret_cast<const char*>(y.data()),
                 static_cast<std::streamsize>(y.size_bytes()));
    }
  }

  // Uses the images after those of the calibration, if there are any.
  void Judge(Session* floats, Session* bytes) {
    const int64_t batch = InputShape()[0];
    int64_t first = Whole("calibrate") / batch;
    if (first >= Count() / batch) first = 0;
    int64_t all = 0, same = 0, right_float = 0, right_int8 = 0;
    const std::string output = plan_->values[static_cast<size_t>(plan_->outputs[0])].name;
    for (int64_t b = first; b < Count() / batch; ++b) {
      Fill(b, floats);
      Fill(b, bytes);
      floats->Forward();
      bytes->Forward();
      Dump("fp32", *floats);
      Dump("int8", *bytes);
      const auto a = Best(floats->Data(output)), c = Best(bytes->Data(output));
      for (size_t i = 0; i < a.size(); ++i, ++all) {
        same += a[i] == c[i];
        const auto image = static_cast<size_t>(b * batch) + i;
        if (image >= images_.labels.size()) continue;
        right_float += a[i] == static_cast<int64_t>(images_.labels[image]);
        right_int8 += c[i] == static_cast<int64_t>(images_.labels[image]);
      }
    }
    const auto percent = [&](int64_t n) {
      return 100 * static_cast<double>(n) / static_cast<double>(all);
    };
    std::printf("%lld images: the largest of '%s' is the same in %.2f %%\n",
                static_cast<long long>(all), output.c_str(), percent(same));
    if (!images_.labels.empty()) {
      std::printf("right: fp32 %.2f %%, int8 %.2f %%\n", percent(right_float), percent(right_int8));
    }
  }

  void Race(Session* floats, Session* bytes) {
    std::vector<double> ratios, seconds[2];
    for (int64_t round = 0; round < Whole("rounds"); ++round) {
      double taken[2];
      for (int which = 0; which < 2; ++which) {
        Session* session = which == 0 ? floats : bytes;
        const auto start = std::chrono::steady_clock::now();
        for (int pass = 0; pass < 3; ++pass) session->Forward();
        taken[which] = SecondsSince(start) / 3;
        seconds[which].push_back(taken[which]);
      }
      ratios.push_back(taken[0] / taken[1]);
    }
    const auto middle = [](std::vector<double> v) {
      std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
      return v[v.size() / 2];
    };
    std::printf("fp32 %.3f ms, int8 %.3f ms, ratio %.2f (medians of %lld rounds)\n",
                middle(seconds[0]) * 1e3, middle(seconds[1]) * 1e3, middle(ratios),
                static_cast<long long>(Whole("rounds")));
  }

  Settings settings_;
  NetState state_;
  const Registry registry_ = BuiltinRegistry();
  NetFile file_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  int input_ = 0;
  Images images_;
};

}  // namespace
}  // namespace crema

int main(int count, char** arguments) {
  try {
    crema::Comparison(crema::ParseArguments(count, arguments)).Run();
    return 0;
  } catch (const crema::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
