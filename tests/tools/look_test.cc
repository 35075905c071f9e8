// The commands that inspect a net: summary, draw, extract_features.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "format/caffemodel.h"
#include "format/file.h"
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
using test::RunProcess;
using test::TempDir;

constexpr const char* kTraining = R"(name: "small"
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "nowhere" batch_size: 4 } transform_param { crop_size: 6 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

// Two rows a batch; x is 0.5 everywhere, y = 3 x + 1 for one weight of 3.
constexpr const char* kFeatures = R"(name: "features"
layer { name: "d" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } data_filler { value: 0.5 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 1 weight_filler { value: 1 } bias_filler { value: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "z" }
)";

// Sets a variable for the commands that a test runs.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (old_) {
      ::setenv(name_.c_str(), old_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::string name_;
  std::optional<std::string> old_;
};

class Look : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("train.prototxt", kTraining);
    temp_.Write("features.prototxt", kFeatures);
    const auto plan = test::PlanText(kFeatures, TEST);
    WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("m.caffemodel"));
  }
  ProcessResult Run(std::vector<std::string> command) const {
    command[0] = Bin(command[0]);
    return RunProcess(command, temp_.path());
  }
  ProcessResult Extract(const std::string& blobs, const std::string& outputs) const {
    return Run({"extract_features", "--model=features.prototxt", "--weights=m.caffemodel",
                "--blobs=" + blobs, "--outputs=" + outputs, "--iterations=3"});
  }
  TempDir temp_;
};

TEST_F(Look, SummaryCountsWithoutTheData) {
  const ProcessResult result = Run({"summary", "--model=train.prototxt"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // 2*3*3*3 + 2 and 32*5 + 5; 16 places * 27 * 2 * 4 items and 32 * 5 * 4.
  EXPECT_TRUE(Contains(result.out, "learned parameters: 221")) << result.out;
  EXPECT_TRUE(Contains(result.out, "MACs: 4096 ")) << result.out;
  EXPECT_TRUE(Contains(result.out, "4x2x4x4")) << result.out;
  EXPECT_TRUE(Contains(result.out, "peak for training: 0.0 MiB")) << result.out;
}

TEST_F(Look, SummaryPrintsThePlanOfEitherPhase) {
  const std::string model = std::string(CREMA_SOURCE_DIR) + "/models/resnet50/deploy.prototxt";
  const ProcessResult plan = Run({"summary", "--model=" + model, "--plan"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  for (const char* text : {"implementation", "res5c_branch2c", "activations and gradients"}) {
    EXPECT_TRUE(Contains(plan.out, text)) << text << "\n" << plan.out;
  }
  const ProcessResult train = Run({"summary", "--model=train.prototxt", "--plan", "--phase=train"});
  ASSERT_EQ(train.exit_code, 0) << train.err;
  EXPECT_FALSE(Contains(train.out, "peak for")) << train.out;
  EXPECT_EQ(Run({"summary", "--model=" + model, "--plan", "--json"}).exit_code, 2);
}

TEST_F(Look, SummaryPlansWithoutAPass) {
  const std::vector<std::string> plan = {"summary", "--model=train.prototxt", "--plan"};
  const auto with = [&](const std::string& passes) {
    std::vector<std::string> command = plan;
    command.push_back("--passes=" + passes);
    return Run(command);
  };
  EXPECT_TRUE(Contains(Run(plan).out, "in conv"));
  EXPECT_FALSE(Contains(with("-fuse").out, "in conv"));
  const ProcessResult wrong = with("-move_stride");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(Contains(wrong.err, "did you mean 'move_strides'?")) << wrong.err;
  EXPECT_TRUE(Contains(wrong.err, "share_memory")) << wrong.err;
}

TEST_F(Look, SummaryPinsImplementations) {
  const auto with = [&](const std::string& pinned) {
    return Run({"summary", "--model=train.prototxt", "--plan", "--implementation=" + pinned});
  };
  const ProcessResult pinned = with("conv:native;ip:native");
  ASSERT_EQ(pinned.exit_code, 0) << pinned.err;
  for (const char* layer : {"\n  conv ", "\n  ip "}) {
    const size_t begin = pinned.out.find(layer);
    ASSERT_NE(begin, std::string::npos) << pinned.out;
    EXPECT_TRUE(
        Contains(pinned.out.substr(begin, pinned.out.find('\n', begin + 1) - begin), "native"))
        << pinned.out;
  }
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"con:native", "the net has no layer 'con' (did you mean 'conv'?)"},
           {"conv:nativ", "have no implementation 'nativ' on cpu; they have: "},
           {"conv", "'conv' is not LAYER:NAME"},
           {":native", "':native' is not LAYER:NAME"}}) {
    const ProcessResult result = with(text);
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
  }
}

TEST_F(Look, SummaryMeasuresImplementationsOnce) {
  const ScopedEnvironment cache("XDG_CACHE_HOME", temp_.path());
  const std::string model = std::string(CREMA_SOURCE_DIR) + "/models/cifar10_full/deploy.prototxt";
  const std::vector<std::string> command = {"summary", "--model=" + model, "--plan",
                                            "--autotune=20"};
  const ProcessResult first = Run(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_TRUE(fs::exists(temp_.File("crema/implementation_times"))) << first.err;
  const ProcessResult second = Run(command);
  EXPECT_TRUE(Contains(second.err, "autotune: 0 kinds of layers measured")) << second.err;
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(Run({"summary", "--model=" + model, "--plan", "--autotune=-1"}).exit_code, 2);
}

TEST_F(Look, SummaryOfAWholeNet) {
  const std::string model = std::string(CREMA_SOURCE_DIR) + "/models/resnet50/deploy.prototxt";
  const ProcessResult result = Run({"summary", "--model=" + model});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "learned parameters: 25557032 ")) << result.out;
  EXPECT_TRUE(Contains(result.out, "MACs: 3857973248 (3.858 G)")) << result.out;
  EXPECT_TRUE(Contains(result.out, "bn_conv1            BatchNorm ")) << result.out;
}

// Eight convolutions, each followed by TanH, with these `fields`.
std::string Deep(const std::string& fields) {
  std::string net = R"(layer { name: "x" type: "Input" top: "x"
    input_param { shape { dim: 4 dim: 16 dim: 32 dim: 32 } } }
)";
  std::string bottom = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string c = "c" + std::to_string(i);
    const std::string t = "t" + std::to_string(i);
    net += "layer { name: '" + c + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + c +
           "' convolution_param { num_output: 16 kernel_size: 3 pad: 1 } }\n" + "layer { name: '" +
           t + "' type: 'Sigmoid' bottom: '" + c + "' top: '" + t + "' " + fields + " }\n" +
           "layer { name: 'p" + t + "' type: 'Power' bottom: '" + t + "' top: 'p" + t +
           "' power_param { power: 2 } }\n";
    bottom = "p" + t;
  }
  return net + "layer { name: 'loss' type: 'Reduction' bottom: '" + bottom +
         "' top: 'loss' loss_weight: 1 }\n";
}

TEST_F(Look, SummaryTellsWhatMemoryIsForAndWhatRecomputeSaves) {
  temp_.Write("kept.prototxt", Deep(""));
  temp_.Write("budget.prototxt", "memory_budget: 4\n" + Deep(""));
  temp_.Write("tight.prototxt", "memory_budget: 1\n" + Deep(""));
  const ProcessResult kept = Run({"summary", "--model=kept.prototxt"});
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_TRUE(Contains(kept.out, "  activations and their gradients ")) << kept.out;
  EXPECT_TRUE(Contains(kept.out, "the process itself")) << kept.out;
  EXPECT_TRUE(Contains(kept.out, "while a snapshot is written, ")) << kept.out;
  EXPECT_FALSE(Contains(kept.out, "recompute saves")) << kept.out;
  const ProcessResult budget = Run({"summary", "--model=budget.prototxt"});
  ASSERT_EQ(budget.exit_code, 0) << budget.err;
  EXPECT_TRUE(Contains(budget.out, "recompute saves ")) << budget.out;
  EXPECT_TRUE(Contains(budget.out, " layers run forward again")) << budget.out;
  const ProcessResult json = Run({"summary", "--model=budget.prototxt", "--json"});
  for (const char* field : {"\"arena_bytes\"", "\"recomputed_layers\"", "\"recompute_saves_bytes\"",
                            "\"snapshot_bytes\"", "\"process_bytes\"", "\"read_ahead_bytes\""}) {
    EXPECT_TRUE(Contains(json.out, field)) << field << json.out;
  }
  const ProcessResult tight = Run({"summary", "--model=tight.prototxt"});
  EXPECT_TRUE(Contains(tight.out, "training: none, memory_budget is 1 MiB")) << tight.out;
}

TEST_F(Look, SummaryCountsBatchesThatAreReadAhead) {
  // 4 batches of 4 x (3 x 6 x 6 + 1) floats.
  const ProcessResult json = Run({"summary", "--model=train.prototxt", "--json"});
  EXPECT_TRUE(Contains(json.out, "\"read_ahead_bytes\": 6976}")) << json.out;
}

TEST_F(Look, SummaryTakesBatchAndShapes) {
  const ProcessResult batch = Run({"summary", "--model=train.prototxt", "--batch=7", "--json"});
  ASSERT_EQ(batch.exit_code, 0) << batch.err;
  EXPECT_TRUE(Contains(batch.out, "[7, 2, 4, 4]")) << batch.out;
  EXPECT_TRUE(Contains(batch.out, "\"parameters\": 221")) << batch.out;
  for (const char* flag : {"--shape=data:2,3,5,5", "--shape=data=2x3x5x5"}) {
    const ProcessResult shape = Run({"summary", "--model=train.prototxt", flag, "--json"});
    ASSERT_EQ(shape.exit_code, 0) << shape.err;
    EXPECT_TRUE(Contains(shape.out, "[2, 2, 3, 3]")) << shape.out;
  }
}

TEST_F(Look, SummaryRefusesBadShapes) {
  for (const std::string flag : {"--shape=data", "--shape=data:1,x", "--shape=other:1",
                                 "--shape=data:-1,3,5,5", "--batch=-1", "--phase=deploy"}) {
    const ProcessResult result = Run({"summary", "--model=train.prototxt", flag});
    EXPECT_EQ(result.exit_code, 2) << flag << result.out;
    EXPECT_FALSE(result.err.empty()) << flag;
  }
}

TEST_F(Look, DrawNamesLayersAndShapes) {
  const ProcessResult result = Run({"draw", "--model=train.prototxt", "-o", "net.dot"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string dot = ReadFile(temp_.File("net.dot"));
  EXPECT_TRUE(Contains(dot, "Convolution 3x3, 2 outputs\\n+ relu (ReLU)")) << dot;
  EXPECT_TRUE(Contains(dot, "4x2x4x4")) << dot;
  EXPECT_TRUE(Contains(dot, "small, TEST")) << dot;
}

TEST_F(Look, DrawMakesPicturesWithGraphviz) {
  if (std::system("dot -V 2>/dev/null") != 0) GTEST_SKIP() << "no Graphviz here";
  ASSERT_EQ(Run({"draw", "--model=train.prototxt", "-o", "net.svg"}).exit_code, 0);
  EXPECT_TRUE(Contains(ReadFile(temp_.File("net.svg")), "</svg>"));
  ASSERT_EQ(Run({"draw", "--model=train.prototxt", "-o", "net.png"}).exit_code, 0);
  EXPECT_EQ(ReadFile(temp_.File("net.png")).substr(1, 3), "PNG");
  EXPECT_EQ(Run({"draw", "--model=train.prototxt", "-o", "net.bmp"}).exit_code, 2);
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    EXPECT_FALSE(Contains(entry.path().string(), ".tmp.")) << entry.path();
  }
}

TEST_F(Look, ExtractWritesNpy) {
  const ProcessResult result = Extract("y", "y.npy");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string file = ReadFile(temp_.File("y.npy"));
  EXPECT_TRUE(Contains(file, "'shape': (6, 1,)")) << file.substr(0, 128);
  ASSERT_EQ(file.size(), 256 + 6 * sizeof(float));
  for (size_t i = 0; i < 6; ++i) {
    float value = 0;
    std::memcpy(&value, file.data() + 256 + i * sizeof(float), sizeof(float));
    EXPECT_FLOAT_EQ(value, 2.5F);
  }
}

TEST_F(Look, ExtractWritesAnLmdbAsCaffeDoes) {
  const ProcessResult result = Run({"extract_features", "m.caffemodel", "features.prototxt", "x,y",
                                    "x_lmdb,y_lmdb", "2", "lmdb", "CPU"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  LmdbReader reader(temp_.File("x_lmdb"));
  EXPECT_EQ(reader.count(), 4U);
  const LmdbRecord record = reader.Next();
  EXPECT_EQ(record.key, "0000000000");
  Datum datum;
  ASSERT_TRUE(datum.ParseFromString(std::string(record.value)));
  EXPECT_EQ(datum.channels(), 3);
  EXPECT_EQ(datum.height(), 1);
  ASSERT_EQ(datum.float_data_size(), 3);
  EXPECT_FLOAT_EQ(datum.float_data(0), 0.5F);
}

#ifdef CREMA_HAVE_HDF5
TEST_F(Look, ExtractedHdf5CanBeReadAsData) {
  ASSERT_EQ(Extract("y", "y.h5").exit_code, 0);
  temp_.Write("list.txt", temp_.File("y.h5") + "\n");
  const auto plan =
      test::PlanText("layer { name: 'h' type: 'HDF5Data' top: 'y' hdf5_data_param { source: '" +
                         temp_.File("list.txt") + "' batch_size: 6 } }",
                     TEST);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.Forward();
  EXPECT_EQ(ToString(session.Data("y").shape()), "6x1");
  for (const float value : session.Data("y").span<float>()) EXPECT_FLOAT_EQ(value, 2.5F);
}
#endif

TEST_F(Look, ExtractRefusesWhatIsNotThere) {
  const ProcessResult blob = Extract("yy", "a.npy");
  EXPECT_EQ(blob.exit_code, 2) << blob.err;
  EXPECT_TRUE(Contains(blob.err, "did you mean 'y'")) << blob.err;
  EXPECT_FALSE(fs::exists(temp_.File("a.npy")));
  EXPECT_EQ(Extract("x,y", "a.npy").exit_code, 2);
  EXPECT_EQ(Extract("x", "a.csv").exit_code, 2);
  EXPECT_FALSE(fs::exists(temp_.File("a.csv")));
  EXPECT_EQ(Run({"extract_features", "one", "two"}).exit_code, 2);
}

}  // namespace
}  // namespace crema
