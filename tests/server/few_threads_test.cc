// The server on a system with few threads.
#ifdef CREMA_FEW_THREADS
#include "support/few_threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "core/log.h"
#include "core/strings.h"
#include "server/batching/batcher.h"
#include "server/fake_model.h"
#include "server/running_server.h"
#include "server/server.h"
#include "server/work_pool.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using namespace std::chrono_literals;

constexpr char kFewThreadsNet[] = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { pool: AVE global_pooling: true } }
)";

TEST(FewThreads, OfAWorkPoolAreAnError) {
  ExpectThreadErrors(4, [] { server::WorkPool(4, 1); });
}

TEST(FewThreads, OfHttpAreAnError) {
  server::ServerOptions options = TestOptions();
  options.http.threads = 4;
  options.grpc.port = -1;
  ExpectThreadErrors(4 + options.api.work_threads,
                     [&] { const server::Server server(options, NullSink()); });
}

TEST(FewThreads, OfABatcherAreAnError) {
  const auto model = std::make_shared<const FakeModel>();
  ExpectThreadErrors(5, [&] { server::Batcher(model, {.instances = 4}); });
}

// Either exit code 4 with a message, or it serves and exits with 0 after SIGTERM.
TEST(FewThreads, ServerWithTooFewThreadsEndsWithAnError) {
  const TempDir folder;
  folder.Write("pool.prototxt", kFewThreadsNet);
  bool refused = false, served = false;
  for (int threads = 0; threads <= 40 && !served; ++threads) {
    std::vector<std::string> command = {
        "/usr/bin/env", "LD_PRELOAD=" CREMA_FEW_THREADS, StrCat("FEW_THREADS=", threads),
        Bin("serve"),   "--model=pool.prototxt",         "--host=127.0.0.1",
        "--port=0"};
    if (server::HasGrpc()) command.emplace_back("--grpc_port=0");
    Process process(command, folder.path(), folder.File("out"), folder.File("err"));
    const auto ready = [&] { return folder.Read("err").find("ready: ") != std::string::npos; };
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (process.IsRunning() && !ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << "it hangs with " << threads << " threads\n"
          << folder.Read("err");
      std::this_thread::sleep_for(5ms);
    }
    if (process.IsRunning()) {
      served = true;
      process.Signal(SIGTERM);
      ASSERT_TRUE(process.EndsWithin(60s)) << threads << " threads";
      EXPECT_EQ(process.Wait(), 0) << folder.Read("err");
    } else {
      refused = true;
      EXPECT_EQ(process.Wait(), 4) << threads << " threads\n" << folder.Read("err");
      EXPECT_NE(folder.Read("err").find("could not be started"), std::string::npos)
          << folder.Read("err");
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(served);
}

}  // namespace
}  // namespace crema::test
#endif
