#include "server/grpc/unsupported.h"

#include <string>

#include "core/strings.h"

namespace crema::server {
namespace {

// Deletes itself.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnsupportedCalls::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  constexpr size_t kLongest = 128;
  constexpr auto kCode = grpc::StatusCode::UNIMPLEMENTED;
  service_.metrics.Answered("grpc", kCode);
  return new Refusal(
      {kCode, StrCat("this server has no method ", context->method().substr(0, kLongest),
                     "; it has no streams, no shared memory, no log and trace "
                     "settings")});
}

}  // namespace crema::server
