// Replaces the other files of this folder in builds without gRPC.
#include "server/grpc/grpc_server.h"

namespace crema::server {

bool HasGrpc() { return false; }

std::string GrpcVersion() { return {}; }

std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service&) {
  if (options.port < 0) return nullptr;
  Fail(ErrorCode::kUnsupported, "this build has no gRPC: build with CREMA_GRPC=ON");
}

}  // namespace crema::server
