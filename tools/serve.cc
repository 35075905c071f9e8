// serve: serves models by HTTP and gRPC.
#include <cstdlib>

#include "common/tool.h"
#include "core/parallel_for.h"
#include "serve/ender.h"
#include "serve/load.h"
#include "serve/options.h"
#include "server/server.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "serve --model=m.crema: answers requests for one model, a file of `deploy export`.\n"
    "serve --model=m.onnx: the same for an ONNX file.\n"
    "serve --model=D --weights=W: the same for a net and its weights.\n"
    "serve --repository=DIR: all models of a folder, DIR/<model>/<version>/model.crema (or\n"
    "model.onnx, or model.prototxt with model.caffemodel). The server loads new versions while it\n"
    "runs.\n"
    "HTTP (--port) and gRPC (--grpc_port) speak the Open Inference Protocol v2. GET / is a page "
    "for\n"
    "people; GET /openapi.json describes the rest. See docs/serving.md.";

// Threads of gRPC and of one model.
constexpr int kOtherThreads = 17;

int Run(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  // Limits pictures of clients. OpenCV reads it when it is loaded.
  ::setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "67108864", 1);
  BlockEndSignals();
  const ServeOptions options = ServeOptionsOfFlags();
  ServedLayers();  // reports a plugin that cannot be loaded
  Ender ender(options.exit_timeout);
  // gRPC blocks indefinitely if its threads cannot be started.
  RequireThreads(options.server.http.threads + options.server.api.work_threads + kOtherThreads);
  server::Server server(options.server, ToolLog());
  ender.Watch(&server);
  try {
    StartServing(options, &server);
  } catch (...) {
    ender.Stop();
    throw;
  }
  ender.AwaitEnd();
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
