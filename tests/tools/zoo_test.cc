// `crema zoo`, as a user runs it, with zoos in folders and on a server in this process.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/sha256.h"
#include "core/strings.h"
#include "format/file.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

// Serves the files of a folder by HTTP on 127.0.0.1, one connection at a time.
class FileServer {
 public:
  explicit FileServer(std::string folder) : folder_(std::move(folder)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, any, size) == 0) listen(listener_, 8);
    getsockname(listener_, any, &size);
    url_ = StrCat("http://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~FileServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  const std::string& url() const { return url_; }
  std::atomic<bool> ranges = true;
  std::atomic<size_t> cut = 0;    // above 0: a body ends after this many bytes
  std::atomic<size_t> begin = 0;  // of the last range
  std::atomic<int> requests = 0;  // for weights

 private:
  void Serve() {
    for (;;) {
      const int peer = accept(listener_, nullptr, nullptr);
      if (peer < 0) return;
      std::string head;
      char buffer[4096];
      while (head.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = read(peer, buffer, sizeof(buffer));
        if (got <= 0) break;
        head.append(buffer, static_cast<size_t>(got));
      }
      const std::string answer = Answer(head);
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t put = send(peer, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (put <= 0) break;
        sent += static_cast<size_t>(put);
      }
      close(peer);
    }
  }

  std::string Answer(const std::string& head) {
    const size_t path = head.find(' ') + 1;
    const std::string file = folder_ + head.substr(path, head.find(' ', path) - path);
    if (!fs::is_regular_file(file)) return "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    std::string body = ReadFile(file);
    std::string status = "200 OK";
    std::string more;
    const size_t range = head.find("Range: bytes=");
    if (file.ends_with(".caffemodel")) ++requests;
    if (range != std::string::npos && ranges) {
      begin = std::strtoul(head.c_str() + range + 13, nullptr, 10);
      more = StrCat("Content-Range: bytes ", begin.load(), "-", body.size() - 1, "/", body.size(),
                    "\r\n");
      body = body.substr(begin);
      status = "206 Partial Content";
    }
    const size_t length = body.size();
    if (cut > 0 && file.ends_with(".caffemodel")) body.resize(std::min(body.size(), cut.load()));
    return StrCat("HTTP/1.0 ", status, "\r\nContent-Length: ", length, "\r\n", more, "\r\n", body);
  }

  std::string folder_;
  std::string url_;
  int listener_ = -1;
  std::thread thread_;
};

class ZooTool : public ::testing::Test {
 protected:
  void SetUp() override {
    weights_.assign(100000, 'w');
    fs::create_directories(temp_.File("zoo/small"));
    temp_.Write("zoo/small/small.caffemodel", weights_);
    temp_.Write("zoo/small/deploy.prototxt", "name: \"small\"\n");
    WriteManifest("small");
  }

  void WriteManifest(const std::string& folder) {
    temp_.Write(
        "zoo/zoo.json",
        StrCat("{\"schema\": 1, \"comment\": \"ignored\", \"models\": [{\"name\": \"small\", "
               "\"summary\": \"a small net\", \"license\": \"CC0-1.0\", \"files\": [",
               Entry(folder + "/small.caffemodel", weights_), ", ",
               Entry(folder + "/deploy.prototxt", "name: \"small\"\n"), "]}]}"));
  }

  static std::string Entry(const std::string& path, const std::string& text) {
    return StrCat("{\"path\": \"", path, "\", \"bytes\": ", text.size(), ", \"sha256\": \"",
                  Sha256Hex(text), "\"}");
  }

  ProcessResult Zoo(std::vector<std::string> words, const std::string& place = "zoo") {
    std::vector<std::string> command = {Bin("zoo")};
    command.insert(command.end(), words.begin(), words.end());
    command.push_back("--zoo=" + place);
    return RunProcess(command, temp_.path());
  }

  TempDir temp_;
  std::string weights_;
};

TEST_F(ZooTool, ListsGetsAndVerifies) {
  EXPECT_EQ(Zoo({"list"}).out, "small    0.1 MB  a small net (CC0-1.0)\n");
  const ProcessResult got = Zoo({"get", "small", "-o", "mine"});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(got.out, "small: 2 of 2 files fetched, 0.1 MB in mine/small\n");
  EXPECT_EQ(temp_.Read("mine/small/small.caffemodel"), weights_);
  EXPECT_EQ(Zoo({"get", "small", "-o", "mine"}).out,
            "small: 0 of 2 files fetched, 0.1 MB in mine/small\n");
  EXPECT_EQ(Zoo({"verify"}).out, "small: good\n");

  weights_[7] = 'x';
  temp_.Write("zoo/small/small.caffemodel", weights_);
  const ProcessResult altered = Zoo({"verify", "small"});
  EXPECT_EQ(altered.exit_code, 3);
  EXPECT_TRUE(Contains(altered.err, "zoo/small/small.caffemodel: has the SHA-256 ")) << altered.err;
  fs::remove_all(temp_.File("mine"));
  const ProcessResult refused = Zoo({"get", "small", "-o", "mine"});
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_FALSE(fs::exists(temp_.File("mine/small/small.caffemodel")));
  EXPECT_FALSE(fs::exists(temp_.File("mine/small/small.caffemodel.part")));
}

TEST_F(ZooTool, MistakesAreNamed) {
  const ProcessResult unknown = Zoo({"get", "smal", "-o", "mine"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(Contains(unknown.err, "the zoo has no model 'smal' (did you mean 'small'?)"))
      << unknown.err;
  EXPECT_TRUE(Contains(Zoo({"gett"}).err, "unknown action 'gett' (did you mean 'get'?)"));
  EXPECT_TRUE(Contains(Zoo({"get"}).err, "zoo get takes names of models; got 0"));
  EXPECT_TRUE(Contains(Zoo({"train", "small"}).err, "the model 'small' has no recipe"));
  EXPECT_EQ(Zoo({"list"}, "nowhere").exit_code, 2);
}

TEST_F(ZooTool, ManifestsCannotNameOtherFiles) {
  for (const char* folder : {"small/..", "..", "/tmp", "other", "small//x", "small/.x"}) {
    WriteManifest(folder);
    const ProcessResult result = Zoo({"get", "small", "-o", "mine"});
    EXPECT_EQ(result.exit_code, 3) << folder;
    EXPECT_TRUE(Contains(result.err, "is not that of a file in its folder")) << result.err;
  }
  temp_.Write("zoo/zoo.json", "{\"schema\": 2}");
  EXPECT_TRUE(Contains(Zoo({"list"}).err, "has schema 2; this version reads 1"));
  temp_.Write("zoo/zoo.json", "{");
  EXPECT_TRUE(Contains(Zoo({"list"}).err, "zoo/zoo.json: is no manifest of a zoo"));
}

TEST_F(ZooTool, FetchedWeightsHaveAShortName) {
  ::setenv("XDG_DATA_HOME", temp_.File("data").c_str(), 1);
  ASSERT_EQ(Zoo({"get", "small"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(temp_.File("data/crema/zoo/small/small.caffemodel")));
  const ProcessResult listed = RunProcess({Bin("weights"), "list", "zoo:small"}, temp_.path());
  EXPECT_TRUE(Contains(listed.err, "crema/zoo/small/small.caffemodel")) << listed.err;
  const ProcessResult missing = RunProcess({Bin("weights"), "list", "zoo:none"}, temp_.path());
  EXPECT_TRUE(Contains(missing.err, "`crema zoo get none` fetches one")) << missing.err;
  ::unsetenv("XDG_DATA_HOME");
}

TEST(ShippedZoo, IsWhole) {
  const std::string models = StrCat("--zoo=", CREMA_SOURCE_DIR, "/models");
  const ProcessResult result = RunProcess({Bin("zoo"), "verify", models});
  EXPECT_EQ(result.exit_code, 0) << result.err << "scripts/zoo_list.py writes the list";
  EXPECT_TRUE(Contains(result.out, "lenet: good\n")) << result.out;
}

class RemoteZoo : public ZooTool {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_CURL
    GTEST_SKIP() << "this build has no libcurl";
#endif
    ZooTool::SetUp();
  }
};

TEST_F(RemoteZoo, ADownloadThatWasCutContinues) {
  FileServer server(temp_.File("zoo"));
  EXPECT_EQ(Zoo({"list"}, server.url() + "/").out, "small    0.1 MB  a small net (CC0-1.0)\n");
  server.cut = 60000;
  const ProcessResult cut = Zoo({"get", "small", "-o", "mine"}, server.url());
  EXPECT_EQ(cut.exit_code, 3) << cut.err;
  EXPECT_EQ(fs::file_size(temp_.File("mine/small/small.caffemodel.part")), 60000U);
  server.cut = 0;
  const ProcessResult got = Zoo({"get", "small", "-o", "mine"}, server.url());
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(server.begin, 60000U);
  EXPECT_EQ(temp_.Read("mine/small/small.caffemodel"), weights_);
  EXPECT_FALSE(fs::exists(temp_.File("mine/small/small.caffemodel.part")));
}

TEST_F(RemoteZoo, AServerWithoutRangesSendsTheWholeFileAgain) {
  FileServer server(temp_.File("zoo"));
  server.ranges = false;
  fs::create_directories(temp_.File("mine/small"));
  temp_.Write("mine/small/small.caffemodel.part", std::string(500, 'w'));
  const ProcessResult got = Zoo({"get", "small", "-o", "mine"}, server.url());
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(server.requests, 2);
  EXPECT_EQ(temp_.Read("mine/small/small.caffemodel"), weights_);
}

TEST_F(RemoteZoo, WrongBytesAreNotKept) {
  FileServer server(temp_.File("zoo"));
  fs::create_directories(temp_.File("mine/small"));
  for (const size_t size : {500U, 100000U}) {  // beginnings of another file
    temp_.Write("mine/small/small.caffemodel.part", std::string(size, 'x'));
    const ProcessResult again = Zoo({"get", "small", "-o", "mine"}, server.url());
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(temp_.Read("mine/small/small.caffemodel"), weights_);
    fs::remove(temp_.File("mine/small/small.caffemodel"));
  }
  const std::string part = temp_.File("mine/small/small.caffemodel.part");
  for (const std::string& bytes : {weights_ + "more", std::string(100000, 'x')}) {
    temp_.Write("zoo/small/small.caffemodel", bytes);
    const ProcessResult wrong = Zoo({"get", "small", "-o", "mine"}, server.url());
    EXPECT_EQ(wrong.exit_code, 3);
    EXPECT_TRUE(Contains(wrong.err,
                         bytes.size() > 100000 ? "more than the 100000 bytes" : "; it was removed"))
        << wrong.err;
    EXPECT_FALSE(fs::exists(part));
  }
  fs::remove(temp_.File("zoo/small/small.caffemodel"));
  EXPECT_TRUE(Contains(Zoo({"get", "small", "-o", "mine"}, server.url()).err,
                       "small.caffemodel: there is no such file"));
}

TEST_F(RemoteZoo, LinksInThePlaceOfAPartAreNotFollowed) {
  FileServer server(temp_.File("zoo"));
  fs::create_directories(temp_.File("mine/small"));
  temp_.Write("precious", "text");
  fs::create_symlink(temp_.File("precious"), temp_.File("mine/small/small.caffemodel.part"));
  const ProcessResult refused = Zoo({"get", "small", "-o", "mine"}, server.url());
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_TRUE(Contains(refused.err, "small.caffemodel.part: cannot be opened")) << refused.err;
  EXPECT_EQ(temp_.Read("precious"), "text");
}

TEST_F(RemoteZoo, SeveralGetTheSameFile) {
  FileServer server(temp_.File("zoo"));
  std::vector<std::thread> all;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&] {
      good += Zoo({"get", "small", "-o", "mine"}, server.url()).exit_code == 0 ? 1 : 0;
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(temp_.Read("mine/small/small.caffemodel"), weights_);
  EXPECT_FALSE(fs::exists(temp_.File("mine/small/small.caffemodel.part")));
}

// Files of minisign 0.11.
TEST_F(RemoteZoo, SignaturesOfMinisignAreVerified) {
  constexpr const char* kKey = "RWRb9IfJ8qyYJ1A20C4TRlAMVgr10TvQgSTJ2xWvmm3kSf4ra3OWRL57";
  constexpr const char* kOther = "RWSJeIdXPHmr2sjbdXWOE5EyerlweUiVtpItIhOy7CoePSa2vAjbhdNJ";
  const std::string comment = "untrusted comment: signature from minisign secret key\n";
  const std::string hashed =
      comment +
      "RURb9IfJ8qyYJ92nGMFNAH9qp6fOGVC3NRgKwUnoJMz0zIXkzNNxw1T0O3zx2pClIPHZY2bJgM55hMw3s3FNnUeB"
      "BnNajIHnMwc=\ntrusted comment: a list of no models\n"
      "WNsc0Z+up1BXOTBa6pEv78W8ggDWBNyxnwGkaTWOXYaLU4zsSiyxJixESs8Uwd+ZIpNReQi/Owzgg8V2mfvRCg==\n";
  const std::string plain =
      comment +
      "RWRb9IfJ8qyYJ1vojXvQhRaPIRr0yX7QouhFVX423Dl+3pj516JLBYTQp8+eNPs/15/5gFihAwCSX6EDoKUGxY8V"
      "nBNm8JAszgI=\ntrusted comment: legacy\n"
      "ebh00Q1FUoddrLb7nF2VqHav4RKHZD4D/7HKvnF07CualadR65Fa+Pxsgov4osI5T0m3ig499+umhYplPLotDw==\n";
  const auto list = [&](const std::string& key) { return Zoo({"list", "--key=" + key}); };
  temp_.Write("zoo/zoo.json", "{\"schema\": 1, \"models\": []}\n");
  EXPECT_EQ(list(kKey).exit_code, 2) << "there is no signature";
  temp_.Write("zoo/zoo.json.minisig", hashed);
  EXPECT_EQ(list(kKey).out, "signed: a list of no models\n");
  temp_.Write("key.pub", StrCat("untrusted comment: minisign public key\n", kKey, "\n"));
  EXPECT_EQ(list("key.pub").exit_code, 0);
  EXPECT_TRUE(Contains(list(kOther).err, "is the signature of another key"));
  EXPECT_TRUE(Contains(list("none.pub").err, "none.pub: there is no such file"));
  EXPECT_TRUE(Contains(list("").err, "--key is empty"));
  EXPECT_TRUE(Contains(list("RW" + std::string(54, '!')).err, "is no public key of minisign"));
  temp_.Write("zoo/zoo.json.minisig", plain);
  EXPECT_EQ(list(kKey).out, "signed: legacy\n");

  std::string forged = hashed;
  forged.replace(forged.find("no models"), 9, "all model");
  temp_.Write("zoo/zoo.json.minisig", forged);
  EXPECT_TRUE(Contains(list(kKey).err, "it was altered"));
  temp_.Write("zoo/zoo.json.minisig", hashed);
  temp_.Write("zoo/zoo.json", "{\"schema\": 1, \"models\": [] }\n");
  const ProcessResult altered = list(kKey);
  EXPECT_EQ(altered.exit_code, 3);
  EXPECT_TRUE(Contains(altered.err, "it was altered")) << altered.err;
  temp_.Write("zoo/zoo.json.minisig", "nothing\n");
  EXPECT_TRUE(Contains(list(kKey).err, "is no signature of minisign"));
}

}  // namespace
}  // namespace crema
