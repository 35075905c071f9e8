// serve: models behind HTTP and gRPC.
#include <csignal>
#include <cstdlib>

#include "common/tool.h"
#include "serve/options.h"
#include "server/server.h"

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "serve --model=m.crema: answers requests for one model, a file of `deploy export`.\n"
    "serve --model=D --weights=W: the same of a net and its weights.\n"
    "serve --repository=DIR: all models of a folder, DIR/<model>/<version>/model.crema (or\n"
    "model.prototxt with model.caffemodel); new versions are taken up while it runs.\n"
    "HTTP (--port) and gRPC (--grpc_port) speak the Open Inference Protocol v2; GET / is a page "
    "for\n"
    "people, GET /openapi.json describes the rest. docs/serving.md tells more.";

// SIGTERM and SIGINT wait in Wait(), whatever thread they come to. Called before there are others.
sigset_t BlockEnds() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

int Run(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  // Pictures of strangers: the limit of OpenCV, which it reads when it is loaded.
  ::setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "67108864", 1);
  const sigset_t ends = BlockEnds();
  std::signal(SIGPIPE, SIG_IGN);
  const ServeOptions options = ServeOptionsOfFlags();
  server::Server server(options.server, ToolLog());
  StartServing(options, &server);
  int which = 0;
  sigwait(&ends, &which);
  LogEvent(Severity::kInfo, "ending: no longer ready, answering what is under way", {});
  if (!server.Drain(options.exit_timeout)) {
    LogEvent(Severity::kWarning, "--exit_timeout is over: requests under way are given up", {});
  }
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
