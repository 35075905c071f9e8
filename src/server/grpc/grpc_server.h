// inference.GRPCInferenceService for the same models as HTTP.
#pragma once

#include <memory>

#include "server/server.h"

namespace crema::server {

// Thread safety: any number of threads.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;  // ends calls that are in progress
  virtual int port() const = 0;
  // Accepts the waiting connections, then stops. Returns when done.
  virtual void StopAccepting() = 0;
};

// Returns null for port -1. Throws kUnsupported in a build without gRPC, kIoFailure if the address
// is in use.
std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service& service);

}  // namespace crema::server
