// The command `serve` with an access log without a reader.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "server/serve_process.h"

namespace crema::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLoggedNet = R"(
name: "pool"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param { pool: AVE kernel_size: 8 } }
)";

class UnreadAccessLog : public ServeCommand {
 protected:
  // Stdout is a pipe of one page, whose reader is this test.
  void StartIntoPipe(std::vector<std::string> flags = {}) {
    const std::string pipe = folder.File("out");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    reader_ = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader_, 0);
    ASSERT_GE(::fcntl(reader_, F_SETPIPE_SZ, 4096), 0);
    flags.push_back(StrCat("--model=", folder.Write("pool.prototxt", kLoggedNet)));
    Start(std::move(flags));
  }
  void TearDown() override { CloseReader(); }
  void CloseReader() {
    if (reader_ >= 0) ::close(std::exchange(reader_, -1));
  }
  std::string ReadPipe() const {
    std::string text(8192, '\0');
    const ssize_t count = ::read(reader_, text.data(), text.size());
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }
  // Waits up to 15 seconds until so many bytes are in the pipe.
  bool HoldsWithin15s(int bytes) const {
    int held = 0;
    for (int i = 0; i < 1500 && held < bytes; ++i) {
      if (::ioctl(reader_, FIONREAD, &held) != 0) return false;
      std::this_thread::sleep_for(10ms);
    }
    return held >= bytes;
  }
  // Each makes a line of 80 bytes or more.
  void ExpectAnswers(int count) const {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(Get(port, "/v2/health/live").status, 200) << i;
    }
  }

  int reader_ = -1;
};

TEST_F(UnreadAccessLog, HoldsUpNeitherAnswersNorTheEnd) {
  for (const char* flag : {"--access_log=text", "--access_log=json"}) {
    StartIntoPipe({flag});
    ExpectAnswers(300);
    // 300 lines do not fit into the pipe. It may be full with one: a longer write gets no part of
    // its only page.
    EXPECT_TRUE(HoldsWithin15s(1)) << "or this test shows nothing";
    process->Signal(SIGTERM);
    ASSERT_TRUE(process->EndsWithin(15s)) << flag;
    EXPECT_EQ(process->Wait(), 0);
    CloseReader();
    ASSERT_EQ(::unlink(folder.File("out").c_str()), 0);
  }
}

TEST_F(UnreadAccessLog, ExitTimeoutStillBoundsTheEnd) {
  StartIntoPipe({"--exit_timeout=1"});
  ExpectAnswers(100);
  SocketClient slow(port);
  slow.Send("POST /v2/models/pool/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  // Its head has been read once a later request is answered.
  ExpectAnswers(1);
  process->Signal(SIGTERM);
  ASSERT_TRUE(process->EndsWithin(15s));
  EXPECT_EQ(process->Wait(), 0);
}

TEST_F(UnreadAccessLog, AReaderWhoGoesEndsNothing) {
  StartIntoPipe();
  ExpectAnswers(1);
  CloseReader();
  ExpectAnswers(100);
  process->Signal(SIGTERM);
  ASSERT_TRUE(process->EndsWithin(15s));
  EXPECT_EQ(process->Wait(), 0);
}

}  // namespace
}  // namespace crema::test
