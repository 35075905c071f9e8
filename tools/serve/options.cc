#include "serve/options.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "common/tool.h"
#include "core/strings.h"
#include "format/sniff.h"
#include "report/build_info.h"
#include "serve/descriptor_limit.h"
#include "serve/load.h"
#include "server/http/cors.h"
#include "server/protocol/names.h"

DEFINE_string(
    model, "",
    "[Input FILE #1] a .crema or .onnx file, or with --weights a deploy net in a prototxt");
DEFINE_string(cascade, "",
              "[Input FILE] in place of --model: a file that names the nets of a cascade, such as "
              "MTCNN (docs/deploy.md)");
DEFINE_string(weights, "", "[Input FILES] caffemodels of --model, separated by commas");
DEFINE_string(name, "",
              "[Input] name under which --model or --cascade answers; default: that of its file");
DEFINE_string(
    repository, "",
    "[Input FOLDER] folder with <model>/<version>/model.crema, model.onnx or cascade.txt");
DEFINE_double(poll_seconds, 1,
              "[Run SECONDS] seconds between checks of the repository; 0: only at the start");
DEFINE_double(
    settle_seconds, 2,
    "[Run SECONDS] seconds that the files of a model must stay the same before it is loaded");
DEFINE_int32(keep_versions, 1, "[Run] newest versions of a model that are loaded");
DEFINE_string(host, "127.0.0.1", "[Run ADDRESS] address to listen on; 0.0.0.0: all");
DEFINE_int32(port, 8000, "[Run] port of HTTP; 0: any free one");
DEFINE_int32(
    grpc_port, 8001,
    "[Run] port of gRPC; 0: any free one, -1: none; default: none with gRPC older than 1.60, "
    "unless --host is a loopback address");
DEFINE_string(tls_cert, "",
              "[Input FILE] certificate chain in PEM form; turns TLS on, for gRPC too");
DEFINE_string(tls_key, "", "[Input FILE] private key of --tls_cert in PEM form");
DEFINE_string(token_file, "",
              "[Input FILE] tokens for inference and metrics, one a line; default: none needed");
DEFINE_string(admin_token_file, "",
              "[Input FILE] tokens to load and unload models; default: loading is refused");
DEFINE_string(cors_origin, "",
              "[Input ORIGIN] origin whose web pages may use the server, such as "
              "https://example.org");
DEFINE_int32(max_batch, 16, "[Run] samples that are computed together at most");
DEFINE_int32(max_delay_us, 0, "[Run] microseconds that a request waits for others to run with");
DEFINE_int32(instances, 1, "[Run] threads that run each model, each with memory of its own");
DEFINE_int32(max_queue, 256, "[Run] requests that wait for a model; further ones get 503");
DEFINE_int32(queue_timeout_ms, 0,
             "[Run] milliseconds that a request may wait; 0: as long as it takes");
DEFINE_int32(max_body_mb, 64, "[Run] largest body of a request");
DEFINE_int32(max_connections, 1024, "[Run] open HTTP connections, and as many of gRPC");
DEFINE_int32(http_threads, 2, "[Expert] threads that read and write HTTP");
DEFINE_double(read_timeout, 30,
              "[Run SECONDS] seconds in which a body must arrive and an answer be taken");
DEFINE_double(exit_timeout, 30, "[Run SECONDS] seconds for requests in progress after SIGTERM");
DEFINE_string(access_log, "text",
              "[Output none|text|json] access log on stdout: none, text or json");

DECLARE_int32(max_plans);

namespace crema::tools {
namespace {

void RequireRange(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, " is ", value, "; it is ", least, " to ", most));
}

std::chrono::milliseconds Milliseconds(const char* flag, double seconds) {
  constexpr double kMost = 86400;
  if (!(seconds >= 0 && seconds <= kMost)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, " is ", seconds, "; it is 0 to ", kMost));
  }
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

server::AccessLog AccessLogOfFlag() {
  if (FLAGS_access_log == "none") return server::AccessLog::kNone;
  if (FLAGS_access_log == "text") return server::AccessLog::kText;
  if (FLAGS_access_log == "json") return server::AccessLog::kJson;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--access_log is '", FLAGS_access_log, "'; it is none, text or json"));
}

void CheckFlags() {
  const int given = (FLAGS_model.empty() ? 0 : 1) + (FLAGS_cascade.empty() ? 0 : 1) +
                    (FLAGS_repository.empty() ? 0 : 1);
  if (given != 1) {
    Fail(ErrorCode::kInvalidArgument, "give one of --model, --cascade and --repository");
  }
  if (!FLAGS_cascade.empty() && !FLAGS_weights.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "--weights has no effect with --cascade, whose file has them");
  }
  if (FLAGS_tls_cert.empty() != FLAGS_tls_key.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--tls_cert and --tls_key go together");
  }
  if (!FLAGS_name.empty() && !server::IsModelName(FLAGS_name)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--name is '", FLAGS_name, "'; it is 1 to 128 of A-Z a-z 0-9 _ . -"));
  }
  if (!FLAGS_cors_origin.empty() && !server::IsOrigin(FLAGS_cors_origin)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--cors_origin is '", FLAGS_cors_origin,
                "'; it is one origin in lower case, without a path: https://example.org:8443"));
  }
  constexpr int kMost = std::numeric_limits<int>::max();
  RequireRange("port", FLAGS_port, 0, 65535);
  RequireRange("grpc_port", FLAGS_grpc_port, -1, 65535);
  RequireRange("max_batch", FLAGS_max_batch, 1, 4096);
  RequireRange("max_delay_us", FLAGS_max_delay_us, 0, 10000000);
  RequireRange("instances", FLAGS_instances, 1, 256);
  RequireRange("max_queue", FLAGS_max_queue, 1, 1000000);
  RequireRange("queue_timeout_ms", FLAGS_queue_timeout_ms, 0, kMost / 1000);
  RequireRange("max_body_mb", FLAGS_max_body_mb, 1, 1024);
  RequireRange("max_connections", FLAGS_max_connections, 1, 1000000);
  RequireRange("http_threads", FLAGS_http_threads, 1, 256);
  RequireRange("max_plans", FLAGS_max_plans, 1, 100000);
  RequireRange("keep_versions", FLAGS_keep_versions, 1, 1000);
}

bool IsLocal(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

void WarnOfOpenDoors() {
  if (!IsLocal(FLAGS_host) && FLAGS_token_file.empty()) {
    LogEvent(Severity::kWarning,
             StrCat("--host=", FLAGS_host,
                    " without --token_file: anybody who reaches this "
                    "machine may ask the models"),
             {});
  }
  if (!IsLocal(FLAGS_host) && FLAGS_tls_cert.empty() &&
      !(FLAGS_token_file.empty() && FLAGS_admin_token_file.empty())) {
    LogEvent(Severity::kWarning, "tokens travel in the clear without --tls_cert and --tls_key", {});
  }
}

// Returns -1 if off.
int GrpcPort() {
  const bool asked = IsGiven("grpc_port");
  if (!server::HasGrpc()) return asked ? FLAGS_grpc_port : -1;
  const std::string version = server::GrpcVersion();
  if (FLAGS_grpc_port < 0 || IsLocal(FLAGS_host) || server::GrpcBoundsFloods(version)) {
    return FLAGS_grpc_port;
  }
  const std::string why =
      StrCat("gRPC ", version,
             " has no bound on streams that are reset (CVE-2023-44487) and on header blocks "
             "without end; 1.60 and later have");
  if (asked) {
    LogEvent(Severity::kWarning,
             StrCat("--grpc_port=", FLAGS_grpc_port, " with --host=", FLAGS_host,
                    ": anybody who reaches it can use up the memory of this server, since ", why),
             {});
    return FLAGS_grpc_port;
  }
  LogEvent(Severity::kInfo,
           StrCat("gRPC is off on ", FLAGS_host, ": ", why, ". --grpc_port=8001 turns it on"), {});
  return -1;
}

// Connections per protocol that leave enough descriptors for models and files.
size_t ConnectionsWithin(int64_t descriptors, int protocols) {
  constexpr int64_t kSpare = 128;
  const int64_t most = std::max<int64_t>(1, (descriptors - kSpare) / protocols);
  if (FLAGS_max_connections > most) {
    LogEvent(Severity::kWarning,
             StrCat("--max_connections=", FLAGS_max_connections, " is more than ", descriptors,
                    " open files (ulimit -n) allow: ", most,
                    protocols > 1 ? " of HTTP and as many of gRPC are served" : " are served"),
             {});
  }
  return static_cast<size_t>(std::min<int64_t>(FLAGS_max_connections, most));
}

// Returns "lenet" for "models/lenet.crema", replacing invalid characters by '_'.
std::string NameOfModel() {
  if (!FLAGS_name.empty()) return FLAGS_name;
  const std::string& file = FLAGS_cascade.empty() ? FLAGS_model : FLAGS_cascade;
  std::string name = std::filesystem::path(file).stem().string();
  for (char& c : name) {
    if (!server::IsModelName(std::string_view(&c, 1)) && c != '.') c = '_';
  }
  return server::IsModelName(name) ? name : "model";
}

}  // namespace

ServeOptions ServeOptionsOfFlags() {
  CheckFlags();
  WarnOfOpenDoors();
  ServeOptions options;
  server::HttpOptions& http = options.server.http;
  http.host = FLAGS_host == "localhost" ? "127.0.0.1" : FLAGS_host;
  http.port = static_cast<uint16_t>(FLAGS_port);
  http.only_local_pages = IsLocal(FLAGS_host) && FLAGS_token_file.empty();
  http.cors_origin = FLAGS_cors_origin;
  http.tls_cert = FLAGS_tls_cert;
  http.tls_key = FLAGS_tls_key;
  http.threads = FLAGS_http_threads;
  http.body = http.answer = Milliseconds("read_timeout", FLAGS_read_timeout);
  http.limits.body_bytes = static_cast<size_t>(FLAGS_max_body_mb) << 20;
  const int grpc_port = GrpcPort();
  http.connections = ConnectionsWithin(RaiseDescriptorLimit(), grpc_port < 0 ? 1 : 2);
  options.server.grpc = {http.host, grpc_port, FLAGS_tls_cert, FLAGS_tls_key, http.connections};
  options.server.api.access_log = AccessLogOfFlag();
  if (!FLAGS_token_file.empty()) {
    options.server.inference_tokens = server::TokenSet::FromFile(FLAGS_token_file);
    options.server.inference_token_file = FLAGS_token_file;
  }
  if (!FLAGS_admin_token_file.empty()) {
    options.server.admin_tokens = server::TokenSet::FromFile(FLAGS_admin_token_file);
    options.server.admin_token_file = FLAGS_admin_token_file;
  }
  options.server.version = ThisBuild().version;
  options.batching = {FLAGS_max_batch, FLAGS_max_delay_us, FLAGS_instances,
                      static_cast<size_t>(FLAGS_max_queue), int64_t{FLAGS_queue_timeout_ms} * 1000};
  options.exit_timeout = Milliseconds("exit_timeout", FLAGS_exit_timeout);
  return options;
}

void StartServing(const ServeOptions& options, server::Server* server) {
  WatchGpuOfFlag(&server->service().metrics);
  if (!FLAGS_cascade.empty()) {
    server::VersionFiles files;
    files.cascade = FLAGS_cascade;
    RefuseFlagsOfPrototxts(false);
    const std::string name = NameOfModel();
    server->ServeModel(name, LoadServed(name, files), options.batching);
  } else if (FLAGS_repository.empty()) {
    server::VersionFiles files;
    // A net without parameters needs no weights.
    const bool is_onnx = FLAGS_model.ends_with(".onnx");
    const bool is_net = !FLAGS_weights.empty() || !(is_onnx || IsCremaFile(FLAGS_model));
    if (is_onnx && is_net) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--weights belongs to a prototxt; ", FLAGS_model, " has its own"));
    }
    (is_onnx ? files.onnx : is_net ? files.net : files.crema) = FLAGS_model;
    files.weights = FLAGS_weights;
    if (!is_onnx && !is_net) RefuseFlagsOfPrototxts(true);
    const std::string name = NameOfModel();
    server->ServeModel(name, LoadServed(name, files), options.batching);
  } else {
    server::RepositoryOptions repository;
    repository.path = FLAGS_repository;
    repository.poll = Milliseconds("poll_seconds", FLAGS_poll_seconds);
    repository.settle = Milliseconds("settle_seconds", FLAGS_settle_seconds);
    repository.keep_versions = static_cast<size_t>(FLAGS_keep_versions);
    repository.batching = options.batching;
    server->ServeRepository(repository, LoadServed);
  }
  const char* scheme = FLAGS_tls_cert.empty() ? "http" : "https";
  std::string places = StrCat(scheme, "://", FLAGS_host, ":", server->http_port());
  if (server->grpc_port() >= 0) {
    places += StrCat(", gRPC on port ", server->grpc_port());
  }
  LogEvent(Severity::kInfo, StrCat("ready: ", places),
           {{"http_port", int64_t{server->http_port()}}});
}

}  // namespace crema::tools
