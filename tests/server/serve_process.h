// A running `serve` command.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/socket_client.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {

class ServeCommand : public testing::Test {
 protected:
  // The flag; empty in a build without gRPC.
  static std::string AnyGrpcPort() { return server::HasGrpc() ? "--grpc_port=0" : ""; }

  // Starts it with free ports, and waits until it reports them.
  void Start(std::vector<std::string> flags) {
    flags.insert(flags.begin(), Bin("serve"));
    flags.insert(flags.begin(), wrapper.begin(), wrapper.end());
    flags.insert(flags.end(), {"--port=0", "--host=127.0.0.1"});
    const bool has_grpc_port = std::ranges::any_of(
        flags, [](const std::string& flag) { return flag.starts_with("--grpc_port="); });
    if (const std::string grpc = AnyGrpcPort(); !grpc.empty() && !has_grpc_port) {
      flags.push_back(grpc);
    }
    process = std::make_unique<Process>(flags, "", folder.File("out"), folder.File("err"));
    const std::string start = "ready: http://127.0.0.1:";
    std::string log;
    while ((log = folder.Read("err")).find(start) == std::string::npos ||
           log.find('\n', log.find(start)) == std::string::npos) {
      ASSERT_TRUE(process->IsRunning()) << log;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    port = static_cast<uint16_t>(std::stoi(log.substr(log.find(start) + start.size())));
    const size_t grpc = log.find("gRPC on port ");
    if (grpc != std::string::npos) grpc_port = std::stoi(log.substr(grpc + 13));
  }

  TempDir folder;
  std::vector<std::string> wrapper;  // command that runs the following one; empty: none
  std::unique_ptr<Process> process;
  uint16_t port = 0;
  int grpc_port = -1;
};

}  // namespace crema::test
