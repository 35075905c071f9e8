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
    "crema serve MODEL [flags]\n"
    "crema serve --repository=FOLDER [flags]\n"
    "\n"
    "Answers requests over HTTP and gRPC by the Open Inference Protocol v2. MODEL is a .crema\n"
    "file of deploy export, an .onnx file, or a deploy net with --weights. A repository holds\n"
    "several models, FOLDER/<model>/<version>/model.crema (or model.onnx, or model.prototxt\n"
    "with model.caffemodel); new versions are loaded while it runs.\n"
    "\n"
    "GET / is a page for people; GET /openapi.json describes the rest. See docs/serving.md.\n"
    "\n"
    "Examples:\n"
    "crema serve lenet.crema\n"
    "crema serve --repository=models/ --port=8080 --grpc_port=-1\n"
    "crema serve lenet.crema --host=0.0.0.0 --token_file=tokens.txt";

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
