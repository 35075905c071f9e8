// Creation and removal of series.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "server/metrics/server_metrics.h"

namespace crema::test {
namespace {

using server::ModelMetrics;
using server::ServerMetrics;

TEST(ServerMetrics, TheMemoryOfAGpuIsThereWithAGpuOnly) {
  ServerMetrics metrics;
  EXPECT_EQ(metrics.Text().find("crema_gpu_memory_used_bytes"), std::string::npos);
  metrics.WatchGpu([] { return int64_t{4096}; });
  EXPECT_NE(metrics.Text().find("crema_gpu_memory_used_bytes 4096"), std::string::npos);
}

TEST(ServerMetrics, SeriesLastAsLongAsAnybodyCounts) {
  ServerMetrics metrics;
  std::shared_ptr<ModelMetrics> first = metrics.ForModel("m");
  const std::shared_ptr<ModelMetrics> second = metrics.ForModel("m");
  first->Succeeded(0, 0, 0);
  first.reset();
  second->Succeeded(0, 0, 0);
  EXPECT_NE(metrics.Text().find("crema_inferences_total{model=\"m\"} 2"), std::string::npos);
}

TEST(ServerMetrics, ManyThreadsComeAndGo) {
  ServerMetrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) metrics.ForModel("m")->Ran(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.Text().find("model=\"m\""), std::string::npos) << "all are gone";
}

}  // namespace
}  // namespace crema::test
