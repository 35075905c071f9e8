// The batch that memory allows.
#include "solvers/batch_choice.h"

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "solvers/run_memory.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

class BatchChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 300);
    test::WriteRecords(temp_.File("test"), 7);
    net_ = test::RegressionNet(temp_.path(), 4, 3);
  }

  RunConfig ConfigOf(int64_t batch) const {
    const std::string text = StrCat("net_param { ", net_, " } base_lr: 0.01 lr_policy: 'fixed' ",
                                    "max_iter: 4 test_interval: 2 type: 'Adam' momentum: 0.9");
    std::vector<FieldSetting> settings;
    if (batch > 0) settings = {ParseFieldSetting(StrCat("batch_size=", batch), "--set")};
    return MakeRunConfig(ParseSolver(text, "solver.prototxt"), settings);
  }
  BatchChoice Choose(int64_t memory) const {
    return ChooseBatch([this](int64_t batch) { return ConfigOf(batch); }, test::TestRegistry(), {},
                       memory);
  }
  int64_t BytesOf(int64_t batch) const {
    const RunConfig config = ConfigOf(batch);
    std::vector<Problem> warnings;
    return RunBytes(config, test::TestRegistry(),
                    *PlanNetOfRun(config.train, test::TestRegistry(), {}, &warnings));
  }
  // Replaces text of the net.
  void Edit(const std::string& from, const std::string& to) {
    const size_t at = net_.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    net_.replace(at, from.size(), to);
  }
  void ExpectRefused(int64_t memory, ErrorCode code, const std::string& message) const {
    try {
      Choose(memory);
      FAIL() << "no error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }

  test::TempDir temp_;
  std::string net_;
};

constexpr int64_t kPlenty = int64_t{1} << 40;

TEST_F(BatchChoiceTest, IsTheLargestOfWhichNineTenthsOfTheMemorySuffice) {
  for (const int64_t batch : {1, 4, 8, 64, 104}) {
    const int64_t memory = (BytesOf(batch) + 8) / 9 * 10;
    const BatchChoice choice = Choose(memory);
    EXPECT_EQ(choice.batch, batch);
    EXPECT_EQ(choice.written, 4);
    EXPECT_EQ(choice.needed, BytesOf(batch));
    EXPECT_NE(choice.limit.find("would need"), std::string::npos) << choice.limit;
    if (batch == 1) continue;
    EXPECT_LT(Choose(memory - 20).batch, batch);
  }
}

TEST_F(BatchChoiceTest, CountsTheMemoryOfHistoriesAndTestNets) {
  const int64_t with_tests = BytesOf(8);
  Edit("test'", "train'");
  EXPECT_EQ(BytesOf(8), with_tests);  // the same sizes
  net_ = test::RegressionNet(temp_.path(), 4, 300);
  EXPECT_GT(BytesOf(8), with_tests);
}

TEST_F(BatchChoiceTest, IsNotLargerThanTheDataSetNorTheUpperBound) {
  EXPECT_EQ(Choose(kPlenty).batch, 296);
  EXPECT_EQ(Choose(kPlenty).limit, "the data set has 300 samples");
  test::WriteRecords(temp_.File("many"), 1100);
  Edit("train'", "many'");
  EXPECT_EQ(Choose(kPlenty).batch, kLargestChosenBatch);
  EXPECT_EQ(Choose(kPlenty).limit, "1024 is the most that AUTO takes");
  test::WriteRecords(temp_.File("few"), 3);
  Edit("many'", "few'");
  EXPECT_EQ(Choose(kPlenty).batch, 2);
}

TEST_F(BatchChoiceTest, ABatchThatIsWrittenElsewhereIsRefused) {
  Edit("dim: -1 dim: 1", "dim: 4 dim: 1");
  ExpectRefused(kPlenty, ErrorCode::kInvalidArgument,
                "layer \"rows\": batch_size=AUTO: the net works with its batch of 4 only: its "
                "first dim is 4; a Reshape takes the batch of its bottom with dim: 0");
  // Another batch cannot be planned.
  Edit("dim: 4 dim: 1", "dim: 1 dim: 4");
  Edit("layer { name: \"loss\"",
       "layer { name: 'wide' type: 'Reshape' bottom: 'out' top: 'wide' reshape_param { shape { "
       "dim: 1 dim: 4 } } } layer { name: \"loss\"");
  Edit("bottom: \"out\" bottom: \"rows\"", "bottom: \"wide\" bottom: \"rows\"");
  ExpectRefused(kPlenty, ErrorCode::kInvalidArgument, "works with its batch of 4 only");
}

TEST_F(BatchChoiceTest, ANetWithoutDataLayerIsRefused) {
  net_ =
      "layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 4 dim: 2 } "
      "} } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
      "num_output: 2 } } layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' }";
  ExpectRefused(kPlenty, ErrorCode::kNotFound, "no data layer of this net has a batch_size");
}

TEST_F(BatchChoiceTest, TooLittleMemoryForOneSampleIsAnError) {
  ExpectRefused(1000, ErrorCode::kOutOfMemory,
                "batch_size=AUTO: not even a batch of 1 fits: the nets need ");
}

}  // namespace
}  // namespace crema
