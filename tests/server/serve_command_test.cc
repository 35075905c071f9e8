// The command: flags, readiness, SIGTERM, and unmodified clients.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/crema_export.h"
#include "onnx/export.h"
#include "onnx/model_builder.h"
#include "runtime/weights.h"
#include "server/running_server.h"
#include "server/secret.h"
#include "server/serve_process.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

// No parameters, hence no weights.
constexpr const char* kServedNet = R"(
name: "pool"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param { pool: AVE kernel_size: 8 } }
layer { name: "prob" type: "Softmax" bottom: "pool" top: "prob" }
)";

// Two outputs, too.
constexpr const char* kTwoInputs = R"(
layer { name: "a" type: "Input" top: "input0" input_param { shape { dim: 2 dim: 2 } } }
layer { name: "b" type: "Input" top: "input1" input_param { shape { dim: 3 } } }
layer { name: "c" type: "Reshape" bottom: "input1" top: "c" reshape_param { shape { dim: 3 dim: 1 } } }
layer { name: "d" type: "Tile" bottom: "c" top: "d" tile_param { axis: 1 tiles: 2 } }
layer { name: "e" type: "MatMul" bottom: "d" bottom: "input0" top: "output0" }
layer { name: "f" type: "Power" bottom: "input0" top: "output1" power_param { scale: 2 } }
)";

TEST_F(ServeCommand, AnswersAndEndsWithZeroOnSigterm) {
  Start({StrCat("--model=", folder.Write("pool.prototxt", kServedNet))});
  const SocketAnswer model = Get(port, "/v2/models/pool");
  EXPECT_EQ(model.status, 200);
  EXPECT_NE(model.body.find(R"("shape":[-1,3,8,8])"), std::string::npos) << model.body;
  EXPECT_NE(folder.Read("err").find(
                "model pool: version 1 is ready: classify; input data [-1,3,8,8], BGR\n"),
            std::string::npos)
      << folder.Read("err");
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0);
  EXPECT_NE(folder.Read("out").find(" GET /v2/models/pool 200 "), std::string::npos);
}

TEST_F(ServeCommand, IsEndedWhileItLoads) {
  std::filesystem::create_directories(folder.File("models/pool/1"));
  folder.Write("models/pool/1/model.prototxt", kServedNet);
  const uint16_t free = RunningServer().port();
  // Waits for files that have just been written.
  std::vector<std::string> flags{Bin("serve"), StrCat("--repository=", folder.File("models")),
                                 "--settle_seconds=60", StrCat("--port=", free),
                                 "--host=127.0.0.1"};
  if (const std::string grpc = AnyGrpcPort(); !grpc.empty()) flags.push_back(grpc);
  process = std::make_unique<Process>(flags, "", folder.File("out"), folder.File("err"));
  for (int status = 0; status == 0;) {
    ASSERT_TRUE(process->IsRunning()) << folder.Read("err");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    try {
      status = Get(free, "/v2/health/live").status;
    } catch (const std::runtime_error&) {
      // It does not listen yet.
    }
  }
  EXPECT_EQ(Get(free, "/v2/health/ready").status, 503);
  const auto start = std::chrono::steady_clock::now();
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST_F(ServeCommand, ExitTimeoutBoundsTheEnd) {
  Start({StrCat("--model=", folder.Write("pool.prototxt", kServedNet)), "--exit_timeout=1"});
  SocketClient slow(port);
  slow.Send(
      "POST /v2/models/pool/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  // Its head has been read once a later request is answered.
  EXPECT_EQ(Get(port, "/v2/health/live").status, 200);
  const auto start = std::chrono::steady_clock::now();
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_NE(folder.Read("err").find("given up"), std::string::npos);
}

TEST_F(ServeCommand, ServesARepository) {
  std::filesystem::create_directories(folder.File("models/pool/3"));
  folder.Write("models/pool/3/model.prototxt", kServedNet);
  folder.Write("models/pool/3/model.caffemodel", "no caffemodel");
  Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0"});
  const SocketAnswer index = Post(port, "/v2/repository/index", "");
  EXPECT_NE(index.body.find(R"("name":"pool","version":"3","state":"UNAVAILABLE")"),
            std::string::npos)
      << index.body;
  EXPECT_EQ(index.body.find(folder.path()), std::string::npos) << "no paths";
  EXPECT_EQ(Get(port, "/v2/models/pool/ready").status, 503);
}

// The example of the protocol's text, whose input1 has one value there, though its shape takes
// three.
TEST_F(ServeCommand, AnswersTheExampleOfTheProtocol) {
  Start({StrCat("--model=", folder.Write("mymodel.prototxt", kTwoInputs))});
  const auto infer = [&](const std::string& data) {
    return Post(
        port, "/v2/models/mymodel/infer",
        StrCat(R"({"id":"42","inputs":[{"name":"input0","shape":[2,2],"datatype":"UINT32",)"
               R"("data":[1,2,3,4]},{"name":"input1","shape":[3],"datatype":"BOOL","data":)",
               data, R"(}],"outputs":[{"name":"output0"}]})"));
  };
  EXPECT_EQ(infer("[true]").body,
            R"({"error":"input 'input1' has 1 elements, but its shape 3 takes 3"})");
  const SocketAnswer answer = infer("[true,false,true]");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"model_name":"mymodel","model_version":"1","id":"42","outputs":[{"name":"output0",)"
            R"("datatype":"FP32","shape":[3,2],"data":[4,6,0,0,4,6]}]})");
}

// As Triton's repositories have them; the export of the same net by the library.
TEST_F(ServeCommand, ServesOnnxFiles) {
  static const Registry registry = BuiltinRegistry();
  const auto model =
      Model::Make(ParseNet(kServedNet, "net.prototxt"), {}, {}, {}, registry, NullSink());
  std::filesystem::create_directories(folder.File("models/pool/1"));
  const std::string file = folder.File("models/pool/1/model.onnx");
  WriteOnnx(ToOnnx(*model, {}), file, false, [](const std::string&) {});
  std::filesystem::create_directories(folder.File("models/bad/1"));
  folder.Write("models/bad/1/model.onnx", "no model");
  Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0"});
  const SocketAnswer answer = Get(port, "/v2/models/pool");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"("shape":[-1,3,8,8])"), std::string::npos) << answer.body;
  std::string body = R"({"inputs":[{"name":"data","datatype":"FP32","shape":[1,3,8,8],"data":[1)";
  for (int i = 1; i < 192; ++i) body += i < 64 ? ",1" : ",0";
  EXPECT_EQ(Post(port, "/v2/models/pool/infer", body + "]}]}").status, 200);
  const SocketAnswer index = Post(port, "/v2/repository/index", "");
  EXPECT_NE(index.body.find(R"("name":"bad","version":"1","state":"UNAVAILABLE")"),
            std::string::npos)
      << index.body;
}

// The first of all samples.
TEST_F(ServeCommand, SaysWhichSizesOnnxFilesAreFixedTo) {
  ModelBuilder builder;
  builder.Input("x", {-1, 2}).Output("y");
  builder.Ints("zero", {1}, {0});
  builder.Ints("one", {1}, {1});
  builder.Node("Slice", {"x", "zero", "one", "zero"}, {"y"});
  Start({StrCat("--model=", folder.Write("first.onnx", builder.Bytes()))});
  const SocketAnswer model = Get(port, "/v2/models/first");
  EXPECT_NE(model.body.find(R"("name":"x","datatype":"FP32","shape":[1,2])"), std::string::npos)
      << model.body;
  const auto infer = [&](const std::string& sizes, const std::string& values) {
    return Post(port, "/v2/models/first/infer",
                StrCat(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[)", sizes,
                       R"(],"data":[)", values, "]}]}"));
  };
  EXPECT_EQ(infer("1,2", "1,2").status, 200);
  const SocketAnswer refused = infer("2,2", "1,2,3,4");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("the model takes [1,2]"), std::string::npos) << refused.body;
}

// Overwritten in place by a shorter file while it is served.
TEST_F(ServeCommand, AFileThatIsWrittenOverDoesNoHarm) {
  ModelCard card;
  card.name = "pool";
  static const Registry registry = BuiltinRegistry();
  const auto model =
      Model::Make(ParseNet(kServedNet, "net.prototxt"), {}, card, {}, registry, NullSink());
  std::filesystem::create_directories(folder.File("models/pool/1"));
  const std::string file = folder.File("models/pool/1/model.crema");
  ExportModel(model, file);
  Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0",
         "--poll_seconds=0.01"});
  std::string body = R"({"inputs":[{"name":"data","datatype":"FP32","shape":[1,3,8,8],"data":[1)";
  for (int i = 1; i < 192; ++i) body += i < 64 ? ",1" : ",0";
  body += "]}]}";
  const SocketAnswer before = Post(port, "/v2/models/pool/infer", body);
  EXPECT_EQ(before.status, 200) << before.body;
  folder.Write("models/pool/1/model.crema", "short");
  while (Get(port, "/metrics").body.find("loads_total{model=\"pool\",outcome=\"bad\"} 0") !=
         std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const SocketAnswer after = Post(port, "/v2/models/pool/infer", body);
  EXPECT_EQ(after.status, 200);
  EXPECT_EQ(after.body, before.body);
  ExportModel(model, folder.File("new"));
  std::filesystem::create_directories(folder.File("models/pool/2"));
  std::filesystem::rename(folder.File("new"), folder.File("models/pool/2/model.crema"));
  while (Get(port, "/v2/models/pool/versions/2/ready").status != 200) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(Post(port, "/v2/models/pool/infer", body).status, 200);
}

// A broken image module is not reported as a fault of the client's picture.
TEST_F(ServeCommand, SaysWhereItCannotReadPicturesOfAKind) {
#if !defined(CREMA_HAVE_OPENCV)
  GTEST_SKIP() << "there is no such module in this build";
#elif defined(CREMA_SANITIZED)
  GTEST_SKIP() << "libraries are loaded by the sanitizer, which looks elsewhere first";
#endif
  folder.Write("libcrema_images.so", "");  // found first
  const char* given = std::getenv("LD_LIBRARY_PATH");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("LD_LIBRARY_PATH", StrCat(folder.path(), ":", before).c_str(), 1);
  Start({StrCat("--model=", folder.Write("pool.prototxt", kServedNet))});
  given == nullptr ? ::unsetenv("LD_LIBRARY_PATH") : ::setenv("LD_LIBRARY_PATH", before.c_str(), 1);
  const SocketAnswer answer = Post(port, "/v1/classify", "P5\n2 2\n255\nabcd");
  EXPECT_EQ(answer.status, 415);
  EXPECT_NE(answer.body.find("cannot read or scale pictures of this kind"), std::string::npos)
      << answer.body;
  EXPECT_EQ(answer.body.find(folder.path()), std::string::npos);
  EXPECT_NE(folder.Read("err").find("libcrema_images.so"), std::string::npos) << folder.Read("err");
}

TEST_F(ServeCommand, SaysWhereModelsAreExpectedThatItDoesNotFind) {
  std::filesystem::create_directories(folder.File("models/flat"));
  folder.Write("models/flat/model.crema", "without the folder of a version");
  const std::string models = folder.File("models");
  folder.Write("models/net.crema", "without a folder");
  Start({StrCat("--repository=", models), "--settle_seconds=0"});
  const std::string log = folder.Read("err");
  for (const std::string& part :
       {StrCat("no model in ", models, "; expected DIR/<model>/<version>/"),
        StrCat("; move ", models, "/net.crema to ", models, "/net/1/model.crema"),
        std::string("models/flat is ignored: it has no folder of a version")}) {
    EXPECT_NE(log.find(part), std::string::npos) << log;
  }
  const ProcessResult missing = RunProcess({Bin("serve"), "--model=nothere.crema"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("nothere.crema: there is no such file"), std::string::npos)
      << missing.err;
}

TEST_F(ServeCommand, RefusesFlagsThatMakeNoSense) {
  const std::string net = folder.Write("pool.prototxt", kServedNet);
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {},
           {"--model=" + net, "--repository=" + folder.path()},
           {"--model=" + net, "--port=70000"},
           {"--model=" + net, "--tls_cert=x"},
           {"--model=" + net, "--name=a/b"},
           {"--model=" + net, "--access_log=xml"},
           {"--model=" + net, "--cors_origin=https://example.org/"},
           {"--model=" + net, "--max_batch=0"},
           {"--model=" + net, "--max_plans=-1"},
           {"--model=x.crema", "--port=0", "--grpc_port=0", "--scale=2"},
           {"--model=" + net, "--port=0", "--grpc_port=0", "--host=nowhere"},
           {"--model=" + net, "--token_file=" + WriteSecret(folder, "short", "secret")}}) {
    std::vector<std::string> command = {Bin("serve")};
    command.insert(command.end(), flags.begin(), flags.end());
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit_code, 2) << result.err;
  }
}

TEST_F(ServeCommand, FilesOfAnotherKindAreNamed) {
  const std::string net =
      StrCat(kServedNet, "layer { name: 'ip' type: 'InnerProduct' bottom: 'prob' ",
             "top: 'ip' inner_product_param { num_output: 2 } }");
  NetParameter weights;
  weights.add_layer()->add_blobs()->add_data(1);
  const std::vector<std::pair<std::string, std::string>> files = {
      {folder.Write("net.txt", net), "is a net with parameters: give its --weights, too"},
      {folder.Write("net.prototxt", net), "is a net with parameters: give its --weights, too"},
      {folder.Write("w.caffemodel", weights.SerializeAsString()), "is a binary weights file"},
      {folder.Write("page.crema", "<html></html>"), "is an HTML page, not a model file"},
  };
  for (const auto& [file, message] : files) {
    const ProcessResult result =
        RunProcess({Bin("serve"), file, "--port=0", StrCat("--grpc_port=-1")});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
}

TEST_F(ServeCommand, SaysWhichFlagsBelongToTheExport) {
  for (const auto& [flag, remedy] :
       {std::pair{"--head=yolov7", "`deploy export --head=... -o MODEL.crema` stores it"},
        std::pair{"--tail=tail.prototxt", "`deploy export --tail=... -o MODEL.crema` stores it"},
        std::pair{"--nms=0.5", "`deploy export --nms=... -o MODEL.crema` stores it"}}) {
    const ProcessResult result = RunProcess({Bin("serve"), "--model=m.onnx", flag});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(remedy), std::string::npos) << result.err;
  }
}

// A box that no picture changes; its shape does not show the head.
TEST_F(ServeCommand, ServesTheHeadThatAnExportStored) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build reads no pictures";
#endif
  const std::string net = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 6 } }
layer { name: "rows" type: "Reshape" bottom: "ip" top: "rows" reshape_param { shape { dim: 0 dim: 1 dim: 6 } } }
)";
  const auto plan = PlanText(net, TEST);
  const auto weights = Weights::Make(*plan, 1);
  std::ranges::fill(weights->blob(0).span<float>(), 0.0F);
  std::ranges::copy(std::array{4.0F, 3.0F, 4.0F, 2.0F, 0.875F, 1.0F},  // centre, size, scores
                    weights->blob(1).span<float>().begin());
  WriteCaffemodel(weights->Export(*plan), folder.File("rows.caffemodel"));
  const ProcessResult exported = RunProcess(
      {Bin("deploy"), "export", "--model=" + folder.Write("rows.prototxt", net),
       "--weights=" + folder.File("rows.caffemodel"), "--head=yolov7", "--nms=0.5",
       "--labels=" + folder.Write("labels.txt", "face\n"), "-o", folder.File("faces.crema")});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  Start({"--model=" + folder.File("faces.crema")});
  const SocketAnswer found =
      Post(port, "/v1/detect?model=faces", "P5\n8 8\n255\n" + std::string(64, 'x'));
  EXPECT_EQ(found.status, 200);
  EXPECT_NE(found.body.find(R"("score":0.875,"label":"face","box":[2,2,6,4])"), std::string::npos)
      << found.body;
}

TEST_F(ServeCommand, WarnsOfAnOpenDoor) {
  const ProcessResult result = RunProcess(
      {Bin("serve"), "--model=missing.prototxt", "--host=0.0.0.0", "--port=0", "--grpc_port=0"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.err.find("without --token_file"), std::string::npos) << result.err;
}

// CREMA_TRITON_PYTHON names a Python that has tritonclient.
TEST_F(ServeCommand, AnUnmodifiedTritonClientIsServed) {
  const char* named = std::getenv("CREMA_TRITON_PYTHON");
  const std::string python = named == nullptr ? "/usr/bin/python3" : named;
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "there is no " << python;
  Start({StrCat("--model=", folder.Write("pool.prototxt", kServedNet))});
  if (grpc_port < 0) GTEST_SKIP() << "this build has no gRPC";
  const ProcessResult result =
      RunProcess({python, std::string(CREMA_SOURCE_DIR) + "/tests/server/triton_client.py",
                  std::to_string(port), std::to_string(grpc_port), "pool"});
  // 77: it reports this; 1 without a message: numpy is missing.
  if (result.exit_code == 77 || result.err.find("No module named 'numpy'") != std::string::npos) {
    GTEST_SKIP() << "no Python with tritonclient; name one with CREMA_TRITON_PYTHON";
  }
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace crema::test
