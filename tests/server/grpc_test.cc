// gRPC: the same models and refusals as over HTTP.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "core/strings.h"
#include "inference.grpc.pb.h"
#include "server/running_server.h"
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

std::string Floats(const std::vector<float>& values) {
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
  request.add_raw_input_contents(Floats({1, 2, 3, 4}));
  return request;
}

class Grpc : public testing::Test {
 protected:
  void Start(const server::ServerOptions& options = WithGrpc(), const FakeModelOptions& fake = {}) {
    running = std::make_unique<RunningServer>(options, fake);
    stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        StrCat("127.0.0.1:", running->server.grpc_port()), grpc::InsecureChannelCredentials()));
  }
  grpc::Status Infer(const ModelInferRequest& request, const std::string& token = "") {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    response.Clear();
    return stub->ModelInfer(&context, request, &response);
  }
  // What a good request becomes when it is changed.
  StatusCode After(const std::function<void(ModelInferRequest*)>& change) {
    ModelInferRequest request = GoodRequest();
    change(&request);
    return Infer(request).error_code();
  }

  std::unique_ptr<RunningServer> running;
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
  EXPECT_EQ(response.raw_output_contents(0), Floats({2, 4, 6, 8}));
  request.clear_raw_input_contents();
  for (const float value : {1, 1, 1, 1}) {
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  request.add_outputs()->set_name("sum");
  ASSERT_TRUE(Infer(request).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.raw_output_contents(0), Floats({4}));
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
      [](auto* r) { *r->add_inputs() = r->inputs(0), r->add_raw_input_contents(Floats({1})); },
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
              r->set_raw_input_contents(0, Floats({667, 1, 1, 1}));
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
  options.inference_tokens = server::TokenSet::FromFile(folder.Write("t", "0123456789abcdef"));
  options.admin_tokens = server::TokenSet::FromFile(folder.Write("a", "fedcba9876543210"));
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

TEST_F(Grpc, WhatIsCancelledOrTooLateIsNotComputed) {
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
