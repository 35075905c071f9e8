// gRPC with clients that exceed limits: compressed messages, connections, descriptors.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "inference.grpc.pb.h"
#include "server/certificate.h"
#include "server/running_server.h"
#include "server/serve_process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using grpc::StatusCode;
using Stub = inference::GRPCInferenceService::Stub;

// Each has its own connections.
std::unique_ptr<Stub> StubOf(int port, const std::shared_ptr<grpc::ChannelCredentials>& how =
                                           grpc::InsecureChannelCredentials()) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetSslTargetNameOverride("localhost");
  return inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(StrCat("127.0.0.1:", port), how, arguments));
}

grpc::Status AskLive(Stub* stub, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limit);
  inference::ServerLiveResponse response;
  return stub->ServerLive(&context, {}, &response);
}

// Waits until a call succeeds, for at most 30 seconds.
bool IsServedAgain(int port) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (AskLive(StubOf(port).get()).ok()) return true;
  }
  return false;
}

bool BecomesReady(const server::Service& service, bool wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (service.ready != wanted && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return service.ready == wanted;
}

// An HTTP/2 client that sends no request.
std::unique_ptr<SocketClient> IdleClient(int port) {
  auto client = std::make_unique<SocketClient>(static_cast<uint16_t>(port));
  client->Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9));
  return client;
}

server::ServerOptions WithConnections(size_t connections) {
  server::ServerOptions options = TestOptions();
  options.grpc.port = 0;
  options.grpc.connections = connections;
  return options;
}

class GrpcCommand : public ServeCommand {
 protected:
  std::string Net() {
    return folder.Write("pool.prototxt", R"(
name: "pool"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "prob" type: "Softmax" bottom: "data" top: "prob" }
)");
  }
  // Peak resident memory.
  int64_t PeakMegabytes() {
    std::ifstream status(StrCat("/proc/", process->pid(), "/status"));
    std::string word;
    while (status >> word) {
      int64_t kilobytes = 0;
      if (word == "VmHWM:" && status >> kilobytes) return kilobytes >> 10;
    }
    return -1;
  }
};

TEST_F(GrpcCommand, CompressedMessagesAreRefusedBeforeTheyAreInflated) {
  Start({StrCat("--model=", Net())});
  const auto stub = StubOf(grpc_port);
  ASSERT_TRUE(AskLive(stub.get()).ok());
  const int64_t before = PeakMegabytes();
  ASSERT_GT(before, 0);
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    inference::ModelInferRequest request;
    request.set_model_name("pool");
    request.add_raw_input_contents(std::string(size_t{192} << 20, '\0'));
    inference::ModelInferResponse response;
    const grpc::Status status = stub->ModelInfer(&context, request, &response);
    EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_NE(status.error_message().find("ompression"), std::string::npos)
        << status.error_message();
  }
  EXPECT_LT(PeakMegabytes(), before + 64);
  EXPECT_TRUE(AskLive(stub.get()).ok());
}

TEST_F(GrpcCommand, AFloodLeavesDescriptorsForHttp) {
  wrapper = {"/bin/sh", "-c", "ulimit -n 192; exec \"$@\"", "sh"};
  Start({StrCat("--model=", Net()), "--access_log=none"});
  std::vector<std::unique_ptr<SocketClient>> flood;
  for (int i = 0; i < 400; ++i) flood.push_back(IdleClient(grpc_port));
  EXPECT_EQ(Get(port, "/v2/health/ready").status, 200);
  EXPECT_EQ(Get(port, "/v2").status, 200);
  flood.clear();
  EXPECT_TRUE(IsServedAgain(grpc_port));
}

TEST_F(GrpcCommand, AnOldLibraryIsOffWhereOthersReachIt) {
  // An invalid address: the command ends before it listens.
  const auto log = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command{Bin("serve"), StrCat("--model=", Net()), "--port=0",
                                     "--host=192.0.2.1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProcess(command).err;
  };
  const bool old = !server::GrpcBoundsFloods(server::GrpcVersion());
  EXPECT_EQ(log({}).find("gRPC is off on 192.0.2.1") != std::string::npos, old) << log({});
  const std::string asked = log({"--grpc_port=8001"});
  EXPECT_EQ(asked.find("CVE-2023-44487") != std::string::npos, old) << asked;
  EXPECT_EQ(asked.find("gRPC is off"), std::string::npos) << asked;
  EXPECT_EQ(log({"--grpc_port=-1"}).find("gRPC"), std::string::npos);
}

TEST(GrpcLimits, VersionsThatBoundFloodsAreKnown) {
  for (const char* version : {"1.60.0", "1.71.0", "2.0.0", "1.60.0-pre1"}) {
    EXPECT_TRUE(server::GrpcBoundsFloods(version)) << version;
  }
  for (const char* version : {"1.51.1", "1.59.9", "1.6.0", "0.99.0", "", "unknown"}) {
    EXPECT_FALSE(server::GrpcBoundsFloods(version)) << version;
  }
}

TEST(GrpcLimits, ConnectionsAreBoundAndPlacesComeBack) {
  RunningServer running(WithConnections(4));
  const int port = running.server.grpc_port();
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(IdleClient(port));
  // Accepted in the order of arrival.
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(SocketClient(static_cast<uint16_t>(port)).IsClosed());
  EXPECT_EQ(AskLive(StubOf(port).get(), std::chrono::milliseconds(500)).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_TRUE(running.server.service().ready) << "turning clients away is no fault";
  clients.clear();
  EXPECT_TRUE(IsServedAgain(port));
}

TEST(GrpcLimits, IsAcceptedAgainAfterDescriptorsRanOut) {
  RunningServer running(WithConnections(64));
  const int port = running.server.grpc_port();
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int connected =
      ::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool told = BecomesReady(running.server.service(), false);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ::close(client);
  EXPECT_EQ(connected, 0);
  EXPECT_TRUE(told);
  EXPECT_TRUE(BecomesReady(running.server.service(), true));
  EXPECT_TRUE(IsServedAgain(port));
}

TEST(GrpcLimits, TlsIsSpokenOnAcceptedConnections) {
  const TempDir folder;
  server::ServerOptions options = WithConnections(64);
  options.grpc.tls_cert = folder.File("cert.pem");
  options.grpc.tls_key = folder.File("key.pem");
  WriteCertificate(options.grpc.tls_cert, options.grpc.tls_key);
  const RunningServer running(options);
  const int port = running.server.grpc_port();
  grpc::SslCredentialsOptions trusted;
  trusted.pem_root_certs = folder.Read("cert.pem");
  const grpc::Status status = AskLive(StubOf(port, grpc::SslCredentials(trusted)).get());
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Without TLS.
  EXPECT_FALSE(AskLive(StubOf(port).get(), std::chrono::milliseconds(500)).ok());
}

}  // namespace
}  // namespace crema::test
