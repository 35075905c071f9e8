// Failures of one of several GPUs: all skip the update, or all end with that error.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/batches/memory_feed.h"
#include "support/parallel_training.h"

namespace crema::test {
namespace {

constexpr const char* kFedSolver =
    "net_param { layer { name: 'feed' type: 'MemoryData' top: 'x' memory_data_param { "
    "batch_size: 2 channels: 1 height: 1 width: 2 } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
    "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
    "layer { name: 'loss' type: 'Reduction' bottom: 'y' top: 'loss' loss_weight: 1 "
    "reduction_param { operation: SUMSQ } } } lr_policy: 'fixed' random_seed: 3 "
    "snapshot_after_train: false ";

void Feed(const Training& run, int rank, const std::vector<float>& data,
          const std::vector<float>& labels) {
  auto* feed = dynamic_cast<MemoryFeed*>(run.rank(rank).session().MutableState("feed"));
  ASSERT_NE(feed, nullptr);
  feed->SetArrays(data, labels);
}

// Only the gradients of one overflow.
TEST_F(SeveralGpus, SkipAnUpdateTogether) {
  const std::vector<float> labels = {0, 0}, small = {1, 2, 3, 4}, large = {1e16F, 2, 3, 4};
  for (const auto* data : {&small, &large}) {
    const Training run = Make(2, StrCat(kFedSolver,
                                        "base_lr: 1e-36 max_iter: 12 loss_scale { initial: "
                                        "16777216 growth_interval: 100 }"));
    Feed(run, 0, small, labels);
    Feed(run, 1, *data, labels);
    const auto before = ParametersOf(*run.first);
    run.Solve();
    const int64_t skipped = recorder_.iterations.back().skipped_updates;
    EXPECT_EQ(skipped > 0, data == &large);
    EXPECT_LT(skipped, 10);
    if (data == &large) {
      EXPECT_NE(before, ParametersOf(*run.first));
    }
    ExpectSameWeights(run);
  }
}

TEST_F(SeveralGpus, EndWithTheErrorOfTheOneThatDiverges) {
  const std::vector<float> labels = {0, 0}, good = {1, 2, 3, 4};
  const std::vector<float> bad = {1, 2, std::numeric_limits<float>::quiet_NaN(), 4};
  for (int rank = 0; rank < 3; ++rank) {
    const Training run = Make(3, StrCat(kFedSolver, "base_lr: 0.01 max_iter: 9"));
    for (int r = 0; r < 3; ++r) Feed(run, r, r == rank ? bad : good, labels);
    const std::string message = MessageOf(run, ErrorCode::kDiverged);
    EXPECT_NE(message.find("The data are at fault"), std::string::npos) << message;
  }
}

TEST_F(SeveralGpus, EndWithTheErrorOfABadRecord) {
  LmdbWriter writer(temp_.File("bad"));
  for (int i = 0; i < 8; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(2);
    datum.set_width(2);
    datum.set_data(i == 5 ? "???" : "????");
    writer.Put(StrCat("record ", i), datum.SerializeAsString());
  }
  writer.Close();
  std::string text = SmallLeNet(1, "base_lr: 0.01 lr_policy: 'fixed' max_iter: 90");
  text.replace(text.find("shuffle: true"), 13, "");
  text.replace(text.find(temp_.File("train")), temp_.File("train").size(), temp_.File("bad"));
  const Training run = Make(2, text);
  const std::string message = MessageOf(run, ErrorCode::kDataLoss);
  EXPECT_NE(message.find("record 5"), std::string::npos) << message;
}

// As if one GPU died in the middle of an iteration.
class DyingCollective final : public Collective {
 public:
  explicit DyingCollective(int ranks) : inner_(ranks) {}
  void Sum(int rank, const ExecContext& context, std::span<float> values) override {
    if (rank == 1 && ++sums_ == 3) Fail(ErrorCode::kDeviceFailure, "the GPU has died");
    inner_.Sum(rank, context, values);
  }
  void CopyFromFirst(int rank, const ExecContext& context,
                     std::span<const TensorView> blobs) override {
    inner_.CopyFromFirst(rank, context, blobs);
  }
  void Abort() noexcept override { inner_.Abort(); }

 private:
  HostCollective inner_;
  int sums_ = 0;  // of rank 1
};

TEST_F(SeveralGpus, AreReleasedWhenOneDies) {
  recorder_ = {};
  const Training run =
      MakeTraining(3, SmallLeNet(2, "base_lr: 0.01 lr_policy: 'fixed' max_iter: 9 snapshot: 1"),
                   GpuOptions(&recorder_), "", std::make_unique<DyingCollective>(3));
  const std::string message = MessageOf(run, ErrorCode::kDeviceFailure);
  EXPECT_EQ(message, "GPU 0: the GPU has died");  // stand-ins are all GPU 0
  // Earlier intact snapshots stay, and nothing is written afterwards.
  EXPECT_EQ(recorder_.snapshots,
            (std::vector{temp_.File("s_iter_1.solverstate"), temp_.File("s_iter_2.solverstate")}));
}

TEST_F(SeveralGpus, RefuseLayersThatWriteFiles) {
  std::string text = SmallLeNet(2, "base_lr: 0.01 lr_policy: 'fixed' max_iter: 9");
  text.insert(text.find("layer { name: \"conv\""),
              "layer { name: 'dump' type: 'HDF5Output' bottom: 'data' bottom: 'label' include { "
              "phase: TRAIN } hdf5_output_param { file_name: 'x.h5' } } ");
  try {
    Make(2, text);
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
  }
}

}  // namespace
}  // namespace crema::test
