// inference.GRPCInferenceService over the same models as HTTP.
#pragma once

#include <memory>

#include "server/server.h"

namespace crema::server {

// Thread safety: any number of threads.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;  // ends calls that are in progress
  virtual int port() const = 0;
  // Takes the connections that wait, and then no more. Returns when that is so.
  virtual void StopAccepting() = 0;
};

// Null for port -1. Throws kUnsupported in a build without gRPC, kIoFailure where the address is
// taken.
std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service& service);

}  // namespace crema::server
