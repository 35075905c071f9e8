// The command with a model folder: recovery from SIGKILL, and log output.
#include <csignal>
#include <filesystem>
#include <random>

#include "core/strings.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/crema_export.h"
#include "server/serve_process.h"
#include "support/cascade_files.h"
#include "support/error_text.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// y = version * x
void ExportVersion(int version, const std::string& file) {
  static const Registry registry = BuiltinRegistry();
  const std::string net = StrCat(R"(name: "m" layer { name: "x" type: "Input" top: "x"
                  input_param { shape { dim: 1 dim: 1 } } }
                layer { name: "y" type: "Power" bottom: "x" top: "y" power_param { scale: )",
                                 version, " } }");
  ModelCard card;
  card.name = "m";
  ExportModel(Model::Make(ParseNet(net, "net.prototxt"), {}, card, {}, registry, NullSink()), file);
}

class ServeRepository : public ServeCommand {
 protected:
  // Atomically, with all its files.
  void PutIn(int version) {
    fs::create_directories(folder.File("new"));
    ExportVersion(version, folder.File("new/model.crema"));
    fs::rename(folder.File("new"), folder.File(StrCat("models/m/", version)));
  }
  SocketAnswer AskForOne() const {
    return Post(port, "/v2/models/m/infer",
                R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]})");
  }
};

TEST_F(ServeRepository, KilledWhileVersionsComeItServesAWholeOneAgain) {
  std::mt19937 random(17);
  fs::create_directories(folder.File("models/m"));
  int version = 1;
  PutIn(version);
  for (int round = 0; round < 6; ++round) {
    Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0",
           "--poll_seconds=0.002"});
    const SocketAnswer answer = AskForOne();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.body.find(StrCat(R"("model_version":")", version, "\"")), std::string::npos)
        << answer.body;
    EXPECT_NE(answer.body.find(StrCat("\"data\":[", version)), std::string::npos) << answer.body;
    for (auto left = 1 + random() % 6; left > 0; --left) {
      PutIn(++version);
      if (version > 3) fs::remove_all(folder.File(StrCat("models/m/", version - 3)));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      EXPECT_EQ(AskForOne().status, 200);
    }
    process->Signal(SIGKILL);
    EXPECT_EQ(process->Wait(), 128 + SIGKILL);
  }
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(ServeRepository, ServesACascadeAndItsChanges) {
  fs::create_directories(folder.File("models/faces/1"));
  WriteCascade(folder.File("models/faces/1"));
  folder.Write("models/faces/1/labels.txt", "background\nface\n");
  Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0",
         "--poll_seconds=0.002"});
  const auto ask = [&] { return Post(port, "/v1/detect?model=faces", SquarePicture()).body; };
  EXPECT_TRUE(Contains(ask(), R"("label":"face","box":[6,5,23,22])")) << ask();
  // One of its nets moves the box by less.
  WriteCascadeNet(folder.File("models/faces/1/second"), kCascadeSecond, {0, 0, 0, 0});
  while (!Contains(ask(), R"("box":[9,5,20,16])")) std::this_thread::yield();
}

TEST_F(ServeRepository, ServesOneCascade) {
  WriteCascade(folder.path());
  folder.Write("labels.txt", "background\nface\n");
  Start({StrCat("--cascade=", folder.File("cascade.txt")), "--name=faces",
         StrCat("--labels=", folder.File("labels.txt"))});
  const std::string found = Post(port, "/v1/detect", SquarePicture()).body;
  EXPECT_TRUE(Contains(found, R"("model":"faces")") && Contains(found, R"("label":"face")"))
      << found;
  const auto refused = [&](const std::string& flag) {
    return RunProcess(
               {Bin("serve"), StrCat("--cascade=", folder.File("cascade.txt")), flag, "--port=0"})
        .err;
  };
  EXPECT_TRUE(Contains(refused("--model=x.crema"), "give one of --model, --cascade and"));
  EXPECT_TRUE(Contains(refused("--mean=3"), "a cascade has them in its file"));
  fs::remove(folder.File("second.caffemodel"));
  EXPECT_TRUE(Contains(refused("--name=x"), "second.caffemodel: there is no such file"))
      << refused("--name=x");
}
#endif

TEST_F(ServeRepository, TheLogNamesTheFileAndNotItsCopy) {
  fs::create_directories(folder.File("models/m/1"));
  const std::string file = folder.File("models/m/1/model.crema");
  ExportVersion(1, file);
  fs::resize_file(file, fs::file_size(file) - 1);
  Start({StrCat("--repository=", folder.File("models")), "--settle_seconds=0"});
  const std::string log = folder.Read("err");
  EXPECT_NE(log.find(file), std::string::npos) << log;
  EXPECT_EQ(log.find("/proc/self"), std::string::npos) << log;
}

TEST_F(ServeRepository, ConnectionsLeaveDescriptorsForTheRest) {
  const auto log = [&](const std::string& limit) {
    return RunProcess({"/bin/sh", "-c",
                       StrCat("ulimit ", limit, " 256; exec ", Bin("serve"), " --repository=",
                              folder.File("missing"), " --max_connections=200 --port=0",
                              server::HasGrpc() ? " --grpc_port=0" : "")})
        .err;
  };
  const char* share = server::HasGrpc() ? "64 of HTTP and as many of gRPC" : "128 are served";
  EXPECT_NE(log("-n").find(share), std::string::npos) << log("-n");
  EXPECT_EQ(log("-Sn").find("are served"), std::string::npos) << "the soft limit is raised";
}

}  // namespace
}  // namespace crema::test
