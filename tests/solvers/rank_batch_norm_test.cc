// BatchNorm and running statistics of ranks that are processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "data/records/lmdb.h"
#include "support/memory_ranks.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using Values = std::vector<std::vector<float>>;

class RankBatchNorm : public ::testing::Test {
 protected:
  RankBatchNorm() {
    LmdbWriter writer(temp_.File("train"));
    for (uint64_t i = 0; i < 30; ++i) {
      Datum datum;
      datum.set_channels(2);
      datum.set_height(4);
      datum.set_width(4);
      datum.set_label(static_cast<int>(i % 3));
      for (uint64_t p = 0; p < 32; ++p) {
        datum.mutable_data()->push_back(static_cast<char>(MixBits(i, p)));
      }
      writer.Put(StrCat(1000 + i), datum.SerializeAsString());
    }
    writer.Close();
  }

  // A net with batch normalisation by blocks with fused layers, by blocks alone, and by the native
  // implementation with a scale of its own.
  std::string Net(int batch, const std::string& sync) const {
    return StrCat("layer { name: 'data' type: 'Data' top: 'data' top: 'label' ",
                  "transform_param { scale: 0.0039 } data_param { source: '", temp_.File("train"),
                  "' batch_size: ", batch, " backend: LMDB } } ", Convolution("a", "data", 32),
                  Norm("na", "a", sync),
                  "layer { name: 'sa' type: 'Scale' bottom: 'na' top: 'sa' "
                  "scale_param { bias_term: true } } "
                  "layer { name: 'ra' type: 'ReLU' bottom: 'sa' top: 'sa' } ",
                  Convolution("b", "sa", 16), Norm("nb", "b", sync), Convolution("c", "nb", 3),
                  Norm("nc", "c", StrCat(sync, " scale_bias: true")),
                  "layer { name: 'nd' type: 'BN' bottom: 'nc' top: 'nd' bn_param { momentum: 0.5 "
                  "slope_filler { value: 1 } ",
                  sync,
                  " } } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'nd' top: 'ip' "
                  "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }");
  }
  static std::string Convolution(const char* name, const char* bottom, int outputs) {
    return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                  name, "' convolution_param { kernel_size: 3 pad: 1 num_output: ", outputs,
                  " weight_filler { type: 'xavier' } } } ");
  }
  static std::string Norm(const char* name, const char* bottom, const std::string& fields) {
    return StrCat("layer { name: '", name, "' type: 'BatchNorm' bottom: '", bottom, "' top: '",
                  name, "' batch_norm_param { moving_average_fraction: 0.5 ", fields, " } } ");
  }
  std::string SolverOf(int batch, const std::string& sync,
                       const std::string& fields = "max_iter: 6") const {
    return StrCat("base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 ", fields,
                  " net_param { ", Net(batch, sync), " }");
  }

  static SolverOptions OptionsOf(ProcessRanks* ranks) {
    SolverOptions options;
    options.threads = 1;
    options.ranks = ranks;
    if (ranks != nullptr) options.rank = ranks->rank();
    return options;
  }
  // Returns the weights and running statistics of each rank.
  static std::vector<Values> Train(int ranks, const std::string& solver) {
    std::vector<Values> all(static_cast<size_t>(ranks));
    const auto errors = RunRanks(ranks, {}, [&](ProcessRanks& run) {
      const auto one = MakeSolver(solver, OptionsOf(&run));
      one->Solve();
      all[static_cast<size_t>(run.rank())] = ValuesOf(one->weights());
    });
    EXPECT_EQ(errors, std::vector<std::string>(all.size()));
    return all;
  }
  static Values TrainAlone(const std::string& solver) {
    const auto one = MakeSolver(solver, OptionsOf(nullptr));
    one->Solve();
    return ValuesOf(one->weights());
  }
  static double Apart(const Values& a, const Values& b) {
    double most = 0;
    for (size_t s = 0; s < a.size(); ++s) {
      for (size_t i = 0; i < a[s].size(); ++i) {
        most = std::max(most, std::abs(double{a[s][i]} - b[s][i]));
      }
    }
    return most;
  }

  TempDir temp_;
};

TEST_F(RankBatchNorm, WithSyncEqualsOneProcessWithTheCombinedBatch) {
  for (const int ranks : {2, 3}) {
    const Values alone = TrainAlone(SolverOf(4 * ranks, "sync: true"));
    const std::vector<Values> together = Train(ranks, SolverOf(4, "sync: true"));
    for (const Values& one : together) EXPECT_EQ(one, together[0]);
    // Rounding: the batch is summed in parts, and grows over six iterations.
    EXPECT_LT(Apart(together[0], alone), 1e-4);
    EXPECT_GT(Apart(Train(ranks, SolverOf(4, ""))[0], alone), 1e-2) << "without sync";
  }
}

TEST_F(RankBatchNorm, WithoutSyncHasTheMeanStatisticsOfTheRanksInSnapshots) {
  const std::string fields =
      StrCat("max_iter: 1 snapshot: 1 snapshot_prefix: '", temp_.File("s"), "'");
  const auto values = Train(2, SolverOf(4, "", fields));
  EXPECT_EQ(values[0], values[1]);
  // The first layer has seen the same values with and without sync.
  const Values synced = Train(2, SolverOf(4, "sync: true", fields))[0];
  constexpr size_t kMeans = 2;  // after weights and bias of a
  ASSERT_EQ(synced[kMeans].size(), 32U);
  EXPECT_LT(Apart({values[0][kMeans]}, {synced[kMeans]}), 1e-6);
}

// A rank that fails in its pass would otherwise leave the others waiting for its statistics.
// Also between the passes of an iteration.
TEST_F(RankBatchNorm, StopsAllRanksAfterTheIterationInWhichOneIsAsked) {
  for (const int passes : {1, 2}) {
    std::vector<int64_t> iterations(3);
    const auto errors = RunRanks(3, {}, [&](ProcessRanks& run) {
      SolverOptions options = OptionsOf(&run);
      int polls = 0;
      options.poll = [&] {
        return run.rank() == 1 && ++polls == 3 * passes ? Request::kStop : Request::kNone;
      };
      const auto one =
          MakeSolver(SolverOf(4, "sync: true", StrCat("max_iter: 50 iter_size: ", passes)),
                     std::move(options));
      one->Solve();
      iterations[static_cast<size_t>(run.rank())] = one->iteration();
    });
    EXPECT_EQ(errors, std::vector<std::string>(3));
    EXPECT_EQ(iterations, std::vector<int64_t>(3, 3));
  }
}

TEST_F(RankBatchNorm, EndsAllRanksIfOneCannotReadItsData) {
  LmdbWriter writer(temp_.File("broken"));
  for (int i = 0; i < 8; ++i) {
    Datum datum;
    datum.set_channels(2);
    datum.set_height(4);
    datum.set_width(4);
    datum.set_data(std::string(i == 5 ? 20 : 32, '\1'));
    writer.Put(StrCat(i), datum.SerializeAsString());
  }
  writer.Close();
  std::string text = SolverOf(2, "sync: true");
  const size_t at = text.find(temp_.File("train"));
  text.replace(at, temp_.File("train").size(), temp_.File("broken"));
  const auto errors =
      RunRanks(3, {}, [&](ProcessRanks& run) { MakeSolver(text, OptionsOf(&run))->Solve(); });
  for (const std::string& error : errors) {
    EXPECT_TRUE(error.starts_with("rank 2 on host2: ")) << error;
    EXPECT_EQ(error, errors[0]);
  }
}

}  // namespace
}  // namespace crema::test
