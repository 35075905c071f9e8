#include "server/grpc/grpc_server.h"

#include <chrono>
#include <utility>

#include "core/strings.h"
#include "format/file.h"
#include "server/grpc/service.h"

namespace crema::server {
namespace {

std::shared_ptr<grpc::ServerCredentials> Credentials(const GrpcOptions& options) {
  if (options.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({ReadFile(options.tls_key), ReadFile(options.tls_cert)});
  return grpc::SslServerCredentials(tls);
}

class CallbackServer final : public GrpcServer {
 public:
  CallbackServer(const GrpcOptions& options, Service& service) : inference_(service) {
    // What a message holds beside its tensors.
    constexpr size_t kRest = size_t{1} << 20;
    grpc::ServerBuilder builder;
    const bool is_v6 = options.host.find(':') != std::string::npos;
    const std::string host = is_v6 ? StrCat("[", options.host, "]") : options.host;
    builder.AddListeningPort(StrCat(host, ":", options.port), Credentials(options), &port_);
    builder.RegisterService(&inference_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(service.limits.body_bytes + kRest));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                               static_cast<int>(service.limits.header_bytes));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
    grpc::ResourceQuota quota("crema");
    quota.Resize(service.limits.buffered_bytes);
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      Fail(ErrorCode::kIoFailure,
           StrCat("cannot listen on ", options.host, " port ", options.port, " for gRPC"));
    }
  }
  ~CallbackServer() override {
    inference_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
  }
  CallbackServer(const CallbackServer&) = delete;
  CallbackServer& operator=(const CallbackServer&) = delete;

  int port() const override { return port_; }

 private:
  InferenceService inference_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

bool HasGrpc() { return true; }

std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service& service) {
  if (options.port < 0) return nullptr;
  return std::make_unique<CallbackServer>(options, service);
}

}  // namespace crema::server
