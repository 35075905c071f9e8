// The page in a browser: its script runs under its policy, and shows what the models take.
#include <gtest/gtest.h>

#include "core/strings.h"
#include "inference/cascade.h"
#include "inference/model.h"
#include "inference/region_head.h"
#include "server/running_server.h"
#include "server/secret.h"
#include "support/browser.h"
#include "support/cascade_files.h"
#include "support/net.h"
#include "support/region_net.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

class Page : public testing::Test {
 protected:
  void SetUp() override {
    if (Chromium().empty()) GTEST_SKIP() << "there is no Chromium; name one with CREMA_CHROMIUM";
  }
  // Returns the document after its script has run.
  std::string Open(const RunningServer& running) { return Open(running.port()); }
  std::string Open(uint16_t port) {
    const ProcessResult result =
        Browse(StrCat("http://127.0.0.1:", port, "/"), "--dump-dom", 800, 600, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  TempDir folder;
};

TEST_F(Page, ShowsWhatAModelOfImagesTakes) {
  FakeModelOptions fake;
  fake.picture = true;
  const RunningServer running(TestOptions(), fake);
  const std::string page = Open(running);
  const std::string at = StrCat("http://127.0.0.1:", running.port());
  for (const std::string& part : {std::string("<option>m \u2013 classifies images</option>"),
                                  std::string("input 2 \u00d7 2, gray"),
                                  StrCat("curl -F file=@image.jpg '", at, "/v1/classify?model=m'"),
                                  std::string("triton.InferInput(\"x\", image.shape, 'BYTES')")}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST_F(Page, ShowsThatADetectorOfRegionsTakesAnySize) {
  NetFile net = ParseNet(kRegionNet, "net.prototxt");
  ModelCard card;
  PrepareRegionNet(&net, &card);
  server::Server server(TestOptions(), NullSink());
  server.ServeModel(
      "m", server::ToExecutable(Model::Make(net, {}, card, {}, TestRegistry(), NullSink())), {});
  const std::string page = Open(server.http_port());
  EXPECT_NE(page.find("detects objects \u00b7 input gray \u00b7 images keep their aspect"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("/v1/detect?model=m"), std::string::npos) << page;
  EXPECT_EQ(page.find("triton.InferInput(\"data\""), std::string::npos) << "no encoded images";
}

TEST_F(Page, ShowsWhatACascadeTakes) {
  WriteCascade(folder.path());
  server::Server server(TestOptions(), NullSink());
  server.ServeModel("faces",
                    server::ToExecutable(
                        std::make_shared<const Cascade>(folder.File("cascade.txt"), TestRegistry(),
                                                        CascadeOptions{}, NullSink()),
                        {}),
                    {});
  const std::string page = Open(server.http_port());
  for (const char* part :
       {"detects objects \u00b7 input color (BGR) \u00b7 images keep their aspect",
        "/v1/detect?model=faces", "triton.InferInput(\"image\", image.shape, 'BYTES')"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST_F(Page, ShowsWhatAModelOfTensorsTakes) {
  const RunningServer running;
  const std::string page = Open(running);
  for (const char* part :
       {"<option>m \u2013 tensors</option>", "input x [-1, 4]",
        "{'name': \"x\", 'datatype': 'FP32', 'shape': [1, 4], 'data': [0.0] * 4},"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST_F(Page, QuotesNamesInItsPrograms) {
  FakeModelOptions fake;
  fake.input = "x'}]});evil(\"\n";
  const RunningServer running(TestOptions(), fake);
  const std::string page = Open(running);
  for (const char* part : {R"({'name': "x'}]});evil(\"\n", 'datatype')",
                           R"(triton.InferInput("x'}]});evil(\"\n", value.shape)"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST_F(Page, ShowsAnUnknownTaskAsTensors) {
  FakeModelOptions fake;
  fake.picture = true;
  fake.task = "toString";
  const std::string page = Open(RunningServer(TestOptions(), fake));
  EXPECT_NE(page.find("<option>m \u2013 tensors</option>"), std::string::npos) << page;
}

TEST_F(Page, AsksForAToken) {
  server::ServerOptions options = TestOptions();
  const std::string token = "0123456789abcdef0123";
  options.inference_tokens = server::TokenSet::FromFile(WriteSecret(folder, "token", token));
  const RunningServer running(options);
  const std::string page = Open(running);
  EXPECT_NE(page.find("a token is needed"), std::string::npos) << page;
  EXPECT_NE(page.find("<details id=\"more\" open"), std::string::npos) << page;
}

}  // namespace
}  // namespace crema::test
