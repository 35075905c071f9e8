// Answers calls of unknown methods. For grpc_server.cc.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include "server/service.h"

namespace crema::server {

// Answers UNIMPLEMENTED with a message that names the method. Thread safety: any number of threads.
class UnsupportedCalls final : public grpc::CallbackGenericService {
 public:
  explicit UnsupportedCalls(Service& service) : service_(service) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  Service& service_;
};

}  // namespace crema::server
