#include "server/grpc/grpc_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "core/strings.h"
#include "format/file.h"
#include "server/grpc/acceptor.h"
#include "server/grpc/service.h"

namespace crema::server {
namespace {

std::shared_ptr<grpc::ServerCredentials> Credentials(const GrpcOptions& options) {
  if (options.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({ReadFile(options.tls_key), ReadFile(options.tls_cert)});
  return grpc::SslServerCredentials(tls);
}

// Deletes itself.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

// Answers UNIMPLEMENTED with a message that names the method. Thread safety: any number of threads.
class UnsupportedCalls final : public grpc::CallbackGenericService {
 public:
  explicit UnsupportedCalls(Service& service) : service_(service) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    constexpr size_t kLongest = 128;
    constexpr auto kCode = grpc::StatusCode::UNIMPLEMENTED;
    service_.metrics.Answered("grpc", kCode);
    return new Refusal(
        {kCode, StrCat("this server has no method ", context->method().substr(0, kLongest),
                       "; it has no streams, no shared memory, no log and trace "
                       "settings")});
  }

 private:
  Service& service_;
};

class CallbackServer final : public GrpcServer {
 public:
  CallbackServer(const GrpcOptions& options, Service& service)
      : service_(service),
        inference_(service),
        unsupported_(service),
        acceptor_(options.host, options.port, options.connections) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    sockets_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        Credentials(options));
    builder.RegisterService(&inference_);
    builder.RegisterCallbackGenericService(&unsupported_);
    SetLimits(service.limits, &builder);
    server_ = builder.BuildAndStart();
    if (!server_) {
      Fail(ErrorCode::kIoFailure, "gRPC did not start: look for its own lines in the log");
    }
    acceptor_.Start([this](int socket) { HandOver(socket); },
                    [this](bool accepts) { service_.SetGrpcAccepts(accepts); });
    service.OnReady(
        [this](bool ready) { server_->GetHealthCheckService()->SetServingStatus(ready); });
  }
  ~CallbackServer() override {
    service_.OnReady(nullptr);
    acceptor_.Stop();
    inference_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
  }
  CallbackServer(const CallbackServer&) = delete;
  CallbackServer& operator=(const CallbackServer&) = delete;

  int port() const override { return acceptor_.port(); }
  void StopAccepting() override { acceptor_.Stop(); }

 private:
  static void SetLimits(const RequestLimits& limits, grpc::ServerBuilder* builder) {
    // Size of a message besides its tensors.
    constexpr size_t kRest = size_t{1} << 20;
    builder->SetMaxReceiveMessageSize(static_cast<int>(limits.body_bytes + kRest));
    // gRPC applies the length limit only after decompressing.
    for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
      builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.header_bytes));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
    builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
    grpc::ResourceQuota quota("crema");
    quota.Resize(limits.buffered_bytes);
    builder->SetResourceQuota(quota);
  }

  void HandOver(int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    sockets_->HandleNewConnection(&connection);
  }

  Service& service_;
  InferenceService inference_;
  UnsupportedCalls unsupported_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sockets_;
  std::unique_ptr<grpc::Server> server_;
  Acceptor acceptor_;  // last: its thread uses the others
};

}  // namespace

bool HasGrpc() { return true; }

std::string GrpcVersion() { return grpc::Version(); }

std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service& service) {
  if (options.port < 0) return nullptr;
  return std::make_unique<CallbackServer>(options, service);
}

}  // namespace crema::server
