// gRPC serves the same models and refuses the same requests as HTTP.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "core/strings.h"
#include "crema.pb.h"
#include "inference.grpc.pb.h"
#include "server/running_server.h"
#include "server/secret.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

server::ServerOptions WithGrpc() {
  server::ServerOptions options = TestOptions();
  options.grpc.port = 0;
  return options;
}

std::string BytesOfFloats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

ModelInferRequest GoodRequest() {
  ModelInferRequest request;
  request.set_model_name("m");
  request.set_id("seven");
  auto* input = request.add_inputs();
  input->set_name("x");
  input->set_datatype("FP32");
  input->add_shape(1);
  input->add_shape(4);
  request.add_raw_input_contents(BytesOfFloats({1, 2, 3, 4}));
  return request;
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

class Grpc : public testing::Test {
 protected:
  void Start(const server::ServerOptions& options = WithGrpc(), const FakeModelOptions& fake = {}) {
    running = std::make_unique<RunningServer>(options, fake);
    channel = grpc::CreateChannel(StrCat("127.0.0.1:", running->server.grpc_port()),
                                  grpc::InsecureChannelCredentials());
    stub = inference::GRPCInferenceService::NewStub(channel);
  }
  // Calls a method that has no stub here, with an empty message.
  grpc::Status Call(const std::string& method, std::string* answer = nullptr) {
    grpc::ClientContext context;
    const grpc::ByteBuffer request(nullptr, 0);
    grpc::ByteBuffer reply;
    std::promise<grpc::Status> ended;
    grpc::GenericStub(channel).UnaryCall(
        &context, method, grpc::StubOptions(), &request, &reply,
        [&](const grpc::Status& status) { ended.set_value(status); });
    const grpc::Status status = ended.get_future().get();
    if (status.ok() && answer != nullptr) *answer = Bytes(reply);
    return status;
  }
  grpc::Status Infer(const ModelInferRequest& request, const std::string& token = "") {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    response.Clear();
    return stub->ModelInfer(&context, request, &response);
  }
  // Returns the status of a good request after a change.
  StatusCode After(const std::function<void(ModelInferRequest*)>& change) {
    ModelInferRequest request = GoodRequest();
    change(&request);
    return Infer(request).error_code();
  }

  std::unique_ptr<RunningServer> running;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
  ModelInferResponse response;
};

TEST_F(Grpc, InfersFromRawAndTypedContents) {
  Start();
  ModelInferRequest request = GoodRequest();
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(response.id(), "seven");
  EXPECT_EQ(response.model_version(), "1");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "y");
  EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({2, 4, 6, 8}));
  request.clear_raw_input_contents();
  for (const float value : {1, 1, 1, 1}) {
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  request.add_outputs()->set_name("sum");
  ASSERT_TRUE(Infer(request).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({4}));
}

TEST_F(Grpc, InfersFromOtherDatatypes) {
  Start();
  ModelInferRequest request = GoodRequest();
  request.mutable_inputs(0)->set_datatype("UINT8");
  request.set_raw_input_contents(0, "\x01\x02\x03\x04");
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({2, 4, 6, 8}));
  request.clear_raw_input_contents();
  const auto infer = [&](const std::string& type) {
    request.mutable_inputs(0)->set_datatype(type);
    const grpc::Status status = Infer(request);
    EXPECT_TRUE(status.ok()) << type << status.error_message();
    EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({2, 4, 6, 8})) << type;
  };
  for (const int value : {1, 2, 3, 4}) {
    auto* contents = request.mutable_inputs(0)->mutable_contents();
    contents->add_uint_contents(static_cast<uint32_t>(value));
    contents->add_int_contents(value);
    contents->add_int64_contents(value);
    contents->add_uint64_contents(static_cast<uint64_t>(value));
    contents->add_fp64_contents(value);
  }
  for (const char* type :
       {"UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP64"}) {
    infer(type);
  }
  request.mutable_inputs(0)->set_datatype("INT64");
  request.mutable_inputs(0)->mutable_contents()->set_int64_contents(2, (1 << 24) + 1);
  EXPECT_EQ(Infer(request).error_message(),
            "element 2 of input 'x' is 16777217; inputs become FP32, which holds integers up to "
            "2^24, and few beyond");
}

TEST_F(Grpc, InfersFromEncodedImages) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  FakeModelOptions fake;
  fake.picture = true;
  Start(WithGrpc(), fake);
  ModelInferRequest request = GoodRequest();
  auto* input = request.mutable_inputs(0);
  input->set_datatype("BYTES");
  input->clear_shape();
  input->add_shape(1);
  const std::string picture = "P5\n2 2\n255\n\x01\x02\x03\x04";
  request.set_raw_input_contents(0,
                                 std::string{static_cast<char>(picture.size()), 0, 0, 0} + picture);
  const grpc::Status raw = Infer(request);
  ASSERT_TRUE(raw.ok()) << raw.error_message();
  EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({2, 4, 6, 8}));
  request.clear_raw_input_contents();
  input->mutable_contents()->add_bytes_contents(picture);
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(response.raw_output_contents(0), BytesOfFloats({2, 4, 6, 8}));
  for (int i = 0; i < 4096; ++i) input->mutable_contents()->add_bytes_contents("");
  input->set_shape(0, 4097);
  EXPECT_NE(Infer(request).error_message().find("more than 4096 elements of BYTES"),
            std::string::npos);
  input->mutable_contents()->clear_bytes_contents();
  input->set_shape(0, 1);
  input->mutable_contents()->add_bytes_contents("no image");
  EXPECT_EQ(Infer(request).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(Grpc, RefusesWhatDoesNotFit) {
  Start();
  const std::vector<std::function<void(ModelInferRequest*)>> changes = {
      [](auto* r) { r->mutable_inputs(0)->set_datatype("FP64"); },
      [](auto* r) { r->mutable_inputs(0)->set_datatype(""); },
      [](auto* r) { r->mutable_inputs(0)->set_name("q"); },
      [](auto* r) { r->mutable_inputs(0)->set_shape(0, -1); },
      [](auto* r) { r->mutable_inputs(0)->set_shape(0, 0); },
      [](auto* r) { r->mutable_inputs(0)->set_shape(0, 2); },
      [](auto* r) { r->mutable_inputs(0)->set_shape(0, int64_t{1} << 62); },
      [](auto* r) { r->mutable_inputs(0)->add_shape(1); },
      [](auto* r) { r->mutable_inputs(0)->clear_shape(); },
      [](auto* r) { r->clear_inputs(); },
      [](auto* r) { r->clear_raw_input_contents(); },
      [](auto* r) { r->add_raw_input_contents("abcd"); },
      [](auto* r) { r->set_raw_input_contents(0, "abc"); },
      [](auto* r) { r->set_raw_input_contents(0, std::string(20, 'a')); },
      [](auto* r) { r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); },
      [](auto* r) {
        *r->add_inputs() = r->inputs(0), r->add_raw_input_contents(BytesOfFloats({1}));
      },
      [](auto* r) { r->add_outputs()->set_name("q"); },
      [](auto* r) { r->add_outputs()->set_name("y"), r->add_outputs()->set_name("y"); },
      [](auto* r) {
        for (int i = 0; i < 1000; ++i) r->add_outputs()->set_name("y");
      },
      [](auto* r) { (*r->mutable_parameters())["priority"].set_int64_param(1); },
      [](auto* r) { (*r->mutable_parameters())["sequence_id"].set_int64_param(1); },
      [](auto* r) { (*r->mutable_parameters())["sequence_id"].set_string_param("a"); },
      [](auto* r) { (*r->mutable_parameters())["timeout"].set_string_param("1"); },
      [](auto* r) { (*r->mutable_parameters())["timeout"].set_int64_param(-1); },
      [](auto* r) {
        (*r->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
      },
      [](auto* r) { r->set_model_name("../m"); },
      [](auto* r) { r->set_model_name(""); },
      [](auto* r) { r->set_model_version("0"); },
      [](auto* r) { r->set_model_version("x"); },
      [](auto* r) { r->set_id(std::string(1000, 'a')); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(After(changes[i]), StatusCode::INVALID_ARGUMENT) << "change " << i;
  }
  EXPECT_EQ(After([](auto* r) { r->set_model_name("n"); }), StatusCode::NOT_FOUND);
  EXPECT_EQ(After([](auto* r) { r->set_model_version("2"); }), StatusCode::NOT_FOUND);
  EXPECT_EQ(After([](auto* r) {
              r->set_raw_input_contents(0, BytesOfFloats({667, 1, 1, 1}));
            }),
            StatusCode::INTERNAL);
  EXPECT_EQ(After([](auto*) {}), StatusCode::OK);
}

TEST_F(Grpc, MessagesThatAreTooLargeAreRefused) {
  server::ServerOptions options = WithGrpc();
  options.http.limits.body_bytes = 1024;
  Start(options);
  EXPECT_EQ(After([](auto* r) { r->set_raw_input_contents(0, std::string(2 << 20, 'a')); }),
            StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(Grpc, AsksForTokens) {
  const TempDir folder;
  server::ServerOptions options = WithGrpc();
  options.inference_tokens =
      server::TokenSet::FromFile(WriteSecret(folder, "t", "0123456789abcdef"));
  options.admin_tokens = server::TokenSet::FromFile(WriteSecret(folder, "a", "fedcba9876543210"));
  Start(options);
  EXPECT_EQ(Infer(GoodRequest()).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Infer(GoodRequest(), "0123456789abcdeF").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Infer(GoodRequest(), "0123456789abcdef").error_code(), StatusCode::OK);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer 0123456789abcdef");
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("m");
  inference::RepositoryModelUnloadResponse unloaded;
  EXPECT_EQ(stub->RepositoryModelUnload(&context, unload, &unloaded).error_code(),
            StatusCode::UNAUTHENTICATED);
}

TEST_F(Grpc, CancelledOrLateCallsAreNotComputed) {
  FakeModelOptions fake;
  fake.gate = std::make_shared<Gate>();
  Start(WithGrpc(), fake);
  running->model->Forget();
  fake.gate->Close();
  grpc::Status first;
  std::thread runs([&] {
    grpc::ClientContext context;
    ModelInferResponse answer;
    first = stub->ModelInfer(&context, GoodRequest(), &answer);
  });
  fake.gate->AwaitWaiting(1);
  const auto counted = [&](const std::string& cause) {
    return running->server.service().metrics.Text().find(
               StrCat("crema_refusals_total{cause=\"", cause, "\"} 1")) != std::string::npos;
  };
  grpc::ClientContext given_up;
  grpc::Status second;
  std::thread waits([&] {
    ModelInferResponse answer;
    second = stub->ModelInfer(&given_up, GoodRequest(), &answer);
  });
  while (running->server.service().in_flight < 2) std::this_thread::yield();
  given_up.TryCancel();
  waits.join();
  EXPECT_EQ(second.error_code(), StatusCode::CANCELLED);
  while (!counted("cancelled")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  grpc::ClientContext hurried;
  hurried.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  ModelInferResponse answer;
  EXPECT_EQ(stub->ModelInfer(&hurried, GoodRequest(), &answer).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  while (!counted("queue_timeout")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fake.gate->Open();
  runs.join();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(Infer(GoodRequest()).ok());
  EXPECT_EQ(running->model->runs(), (std::vector<int64_t>{1, 1}));
}

TEST_F(Grpc, TellsOfItself) {
  Start();
  grpc::ClientContext ready;
  inference::ServerReadyResponse is_ready;
  ASSERT_TRUE(stub->ServerReady(&ready, {}, &is_ready).ok());
  EXPECT_TRUE(is_ready.ready());
  running->server.Drain(std::chrono::seconds(5));
  grpc::ClientContext drained;
  ASSERT_TRUE(stub->ServerReady(&drained, {}, &is_ready).ok());
  EXPECT_FALSE(is_ready.ready());
  grpc::ClientContext late;
  inference::ServerMetadataResponse metadata;
  EXPECT_EQ(stub->ServerMetadata(&late, {}, &metadata).error_code(), StatusCode::UNAVAILABLE);
}

// HealthCheckResponse with field 1, `status`.
constexpr const char* kServing = "\x08\x01";
constexpr const char* kNotServing = "\x08\x02";

TEST_F(Grpc, TheStandardHealthServiceFollowsReadiness) {
  server::ServerOptions options = WithGrpc();
  const TempDir folder;
  options.inference_tokens =
      server::TokenSet::FromFile(WriteSecret(folder, "t", "0123456789abcdef"));
  Start(options);
  std::string answer;
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check", &answer).ok()) << "without a token";
  EXPECT_EQ(answer, kServing);
  running->server.service().SetGrpcAccepts(false);
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check", &answer).ok());
  EXPECT_EQ(answer, kNotServing);
  running->server.service().SetGrpcAccepts(true);
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check", &answer).ok());
  EXPECT_EQ(answer, kServing);
  running->server.Drain(std::chrono::seconds(5));
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check", &answer).ok());
  EXPECT_EQ(answer, kNotServing);
}

// Collects the answers of Health/Watch.
class Watcher final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Watcher(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub(channel).PrepareBidiStreamingCall(&context_, "/grpc.health.v1.Health/Watch",
                                                        grpc::StubOptions(), this);
    StartWriteLast(&request_, {});
    StartRead(&reply_);
    StartCall();
  }
  ~Watcher() override {
    context_.TryCancel();
    done_.get_future().wait();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      const std::lock_guard lock(mutex_);
      last_ = Bytes(reply_);
    }
    changed_.notify_all();
    StartRead(&reply_);
  }
  void OnDone(const grpc::Status&) override { done_.set_value(); }
  bool Await(const std::string& wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return last_ == wanted; });
  }

 private:
  grpc::ClientContext context_;
  const grpc::ByteBuffer request_{nullptr, 0};
  grpc::ByteBuffer reply_;
  std::promise<void> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string last_;
};

TEST_F(Grpc, HealthIsWatched) {
  Start();
  Watcher watcher(channel);
  EXPECT_TRUE(watcher.Await(kServing));
  running->server.Drain(std::chrono::seconds(5));
  EXPECT_TRUE(watcher.Await(kNotServing));
}

TEST_F(Grpc, MethodsThatAreNotThereAreNamed) {
  Start();
  for (const char* method :
       {"/inference.GRPCInferenceService/ModelStreamInfer",
        "/inference.GRPCInferenceService/SystemSharedMemoryStatus", "/a.B/c"}) {
    const grpc::Status status = Call(method);
    EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
    EXPECT_NE(status.error_message().find(method), std::string::npos) << status.error_message();
  }
}

TEST_F(Grpc, AnUnknownModelIsNotReady) {
  Start();
  const auto ask = [&](const std::string& name, inference::ModelReadyResponse* answer) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    return stub->ModelReady(&context, request, answer);
  };
  inference::ModelReadyResponse answer;
  ASSERT_TRUE(ask("m", &answer).ok());
  EXPECT_TRUE(answer.ready());
  ASSERT_TRUE(ask("nobody", &answer).ok());
  EXPECT_FALSE(answer.ready());
  EXPECT_EQ(ask("../m", &answer).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST(GrpcLoad, ConfigurationsAndFilesOfClientsAreRefused) {
  const TempDir folder;
  std::filesystem::create_directories(folder.File("models/m/1"));
  folder.Write("models/m/1/model.crema", "file");
  server::ServerOptions options = WithGrpc();
  options.admin_tokens = server::TokenSet::FromFile(WriteSecret(folder, "a", "fedcba9876543210"));
  server::Server server(options, NullSink());
  server::RepositoryOptions repository;
  repository.path = folder.File("models");
  repository.poll = repository.settle = std::chrono::milliseconds(0);
  server.ServeRepository(repository, [](const std::string&, const server::VersionFiles&) {
    return std::make_shared<const FakeModel>();
  });
  const auto stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
      StrCat("127.0.0.1:", server.grpc_port()), grpc::InsecureChannelCredentials()));
  const auto load = [&](const std::string& parameter) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer fedcba9876543210");
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("m");
    (*request.mutable_parameters())[parameter].set_string_param("{}");
    inference::RepositoryModelLoadResponse response;
    return stub->RepositoryModelLoad(&context, request, &response);
  };
  const auto post = [&](const std::string& parameter) {
    return Post(server.http_port(), "/v2/repository/models/m/load",
                StrCat(R"({"parameters":{")", parameter, R"(":"{}"}})"),
                "Authorization: Bearer fedcba9876543210\r\n");
  };
  for (const char* refused : {"config", "files", "file:1/model.crema"}) {
    EXPECT_EQ(load(refused).error_code(), StatusCode::INVALID_ARGUMENT) << refused;
    EXPECT_NE(load(refused).error_message().find("not supported"), std::string::npos);
    EXPECT_EQ(post(refused).status, 400) << refused;
    EXPECT_NE(post(refused).body.find("not supported"), std::string::npos) << post(refused).body;
  }
  EXPECT_TRUE(load("other").ok());
  EXPECT_EQ(post("other").status, 200);
}

TEST_F(Grpc, ListsTheRepository) {
  Start();
  grpc::ClientContext index;
  inference::RepositoryIndexResponse models;
  ASSERT_TRUE(stub->RepositoryIndex(&index, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).state(), "READY");
}

}  // namespace
}  // namespace crema::test
