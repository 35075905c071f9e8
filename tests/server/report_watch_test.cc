// report --watch and train --watch: the page of runs in progress.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/html_text.h"
#include "common/json.h"
#include "core/strings.h"
#include "server/socket_client.h"
#include "support/browser.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows =
    "kind,iteration,epoch,time,loss,smoothed_loss,lr,samples_per_second,wait_share,net,blob,"
    "element,value\n"
    "train,0,0,100,2,2,0.01,,,,,,\ntrain,10,0,101,1.5,1.5,0.01,,,,,,\n"
    "train,20,0,102,1.25,1.25,0.01,,,,,,\n";
constexpr const char* kNextRow = "train,30,0,103,0.625,0.625,0.01,,,,,,\n";

class ReportWatch : public testing::Test {
 protected:
  void WriteRun(const std::string& name) {
    fs::create_directories(folder.File(name));
    folder.Write(name + "/metrics.csv", kRows);
    folder.Write(name + "/run.json", R"({"net":"LeNet","solver_type":"SGD"})");
  }
  void AddRow(const std::string& name) {
    std::ofstream(folder.File(name + "/metrics.csv"), std::ios::app) << kNextRow;
  }
  // Starts a command that prints the URL of the page, and waits for that.
  void Start(std::vector<std::string> command) {
    command[0] = Bin(command[0]);
    process =
        std::make_unique<Process>(command, folder.path(), folder.File("out"), folder.File("err"));
    const std::string mark = "http://127.0.0.1:";
    std::string out;
    while (!Contains(out = folder.Read("out"), "/\n")) {
      ASSERT_TRUE(process->IsRunning()) << folder.Read("err");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    port = static_cast<uint16_t>(std::stoi(out.substr(out.find(mark) + mark.size())));
  }
  SocketAnswer Page(const std::string& fields = "") const { return Get(port, "/", fields); }

  TempDir folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0;
};

TEST_F(ReportWatch, AFolderThatIsNotThereYetHidesNoOther) {
  WriteRun("run");
  Start({"report", "--watch", "run", "later", "--port=0"});
  const SocketAnswer page = Page();
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(Contains(page.body, "\"iteration\":[0,10,20]"));
  EXPECT_TRUE(Contains(page.body, "later"));
}

TEST_F(ReportWatch, ServesTheNewestPage) {
  WriteRun("run");
  Start({"report", "--watch", "run", "--port=0"});
  const SocketAnswer first = Page();
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(Contains(first.body, "<title>run</title>"));
  EXPECT_TRUE(Contains(first.body, "connect-src 'self'"));
  EXPECT_TRUE(Contains(first.body, "<body data-live>"));
  EXPECT_TRUE(Contains(first.body, "\"iteration\":[0,10,20]"));
  const std::string tag = "If-None-Match: " + first.fields.at("etag") + "\r\n";
  EXPECT_EQ(Page(tag).status, 304);
  AddRow("run");
  const SocketAnswer next = Page(tag);
  EXPECT_EQ(next.status, 200);
  EXPECT_TRUE(Contains(next.body, "\"iteration\":[0,10,20,30]"));
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0);
}

TEST_F(ReportWatch, AnswersThisMachineOnly) {
  WriteRun("run");
  Start({"report", "--watch", "run", "--port=0"});
  EXPECT_EQ(Ask(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
  EXPECT_EQ(Page("Sec-Fetch-Site: cross-site\r\n").status, 403);
  EXPECT_EQ(Get(port, "/run/metrics.csv").status, 404);
  const SocketAnswer post = Post(port, "/", "");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.fields.at("allow"), "GET, HEAD");
}

TEST_F(ReportWatch, WaitsForRunsAndSaysWhatCannotBeRead) {
  Start({"report", "--watch", "runs", "--port=0"});
  EXPECT_TRUE(Contains(folder.Read("err"), "there is no folder 'runs' yet")) << folder.Read("err");
  EXPECT_TRUE(Contains(Page().body, "No run is here yet."));
  WriteRun("runs/a");
  WriteRun("runs/b");
  EXPECT_TRUE(Contains(Page().body, "\"runs\":[\"a\",\"b\"]"));
  fs::create_directories(folder.File("runs/a/evaluation"));
  folder.Write("runs/a/evaluation/summary.json", "{");
  EXPECT_TRUE(Contains(Page().body, "the evaluation of runs/a is left out"));
}

TEST_F(ReportWatch, APortInUseIsAnError) {
  WriteRun("run");
  Start({"report", "--watch", "run", "--port=0"});
  const ProcessResult second =
      RunProcess({Bin("report"), "--watch", "run", StrCat("--port=", port)}, folder.path());
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_TRUE(Contains(second.err, "choose another with --port")) << second.err;
  EXPECT_EQ(RunProcess({Bin("report"), "--watch", "run", "--port=70000"}, folder.path()).exit_code,
            2);
}

// What happens on the page between two answers of the server, which are given as text.
constexpr const char* kVisit = R"JS(
const told = () => document.body.dataset;
const when = (is, act) => is() ? act() : setTimeout(() => when(is, act), 20);
let asked = 0;
window.fetch = async () => ({status: 200, headers: {get: () => '"tag"'},
                             text: async () => asked++ ? NEXT : FIRST});
// The page shows an answer before the next timer.
when(() => asked === 1, () => {
  document.querySelector('[data-zoom=in]').click();
  document.querySelector('[data-run="1"]').click();
  document.querySelector('#details details').open = true;
  when(() => asked === 2, tell);
});
function tell() {
  told().zoomed = !document.querySelector('[data-zoom=all]').disabled;
  told().hidden = document.querySelector('[data-run="1"]').getAttribute('aria-pressed') === 'false';
  told().curves = document.querySelectorAll('.chart .plot .curve').length;
  told().open = document.querySelector('#details details').open;
  told().table = document.querySelector('#results').textContent;
  told().live = document.getElementById('live').textContent;
}
)JS";

TEST_F(ReportWatch, UpdatesKeepZoomAndSelection) {
  if (Chromium().empty()) GTEST_SKIP() << "no Chromium here: set CREMA_CHROMIUM";
  WriteRun("a");
  WriteRun("b");
  Start({"report", "--watch", "a", "b", "--port=0"});
  std::string page = Page().body;
  AddRow("a");
  std::string script = kVisit;
  for (const auto& [name, text] : {std::pair("NEXT", Page().body), std::pair("FIRST", page)}) {
    script.replace(script.find(name), std::string(name).size(),
                   tools::ScriptJson(tools::JsonString(text)));
  }
  page.insert(page.find("<title>"), "<script>" + script + "</script>");
  folder.Write("visit.html", page);
  const ProcessResult result =
      Browse(folder.File("visit.html"), "--dump-dom", 1280, 800, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(BodyData(result.out, "zoomed"), "true");
  EXPECT_EQ(BodyData(result.out, "hidden"), "true");
  EXPECT_EQ(BodyData(result.out, "open"), "true");
  EXPECT_EQ(BodyData(result.out, "curves"), "2");  // loss and learning rate of one run
  EXPECT_TRUE(Contains(BodyData(result.out, "table"), "30"));
  EXPECT_EQ(BodyData(result.out, "live"), ", live");
}

class TrainWatch : public ReportWatch {
 protected:
  void SetUp() override {
    folder.Write("net.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "y" top: "loss" }
)");
    folder.Write("s.prototxt",
                 "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 100000000 "
                 "display: 1000 snapshot_prefix: 's'");
  }
};

TEST_F(TrainWatch, ShowsTheRunUntilItEnds) {
  Start({"train", "--solver=s.prototxt", "--threads=1", "--watch=0"});
  EXPECT_TRUE(Contains(folder.Read("out"), "live page: http://127.0.0.1:"));
  std::string page;
  while (!Contains(page = Page().body, "<h3>Total loss</h3>")) {
    ASSERT_TRUE(process->IsRunning()) << folder.Read("err");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(Contains(page, "<title>s_run</title>"));
  process->Signal(SIGINT);
  EXPECT_EQ(process->Wait(), 0) << folder.Read("err");
  EXPECT_THROW(Page(), std::exception);
}

TEST_F(TrainWatch, APortInUseIsAnErrorBeforeTheRunIsMade) {
  WriteRun("run");
  Start({"report", "--watch", "run", "--port=0"});
  const ProcessResult result =
      RunProcess({Bin("train"), "--solver=s.prototxt", StrCat("--watch=", port)}, folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "the live page does not start; choose another port"))
      << result.err;
  EXPECT_FALSE(fs::exists(folder.File("s_run")));
}

TEST_F(TrainWatch, NeedsARunFolder) {
  const ProcessResult result =
      RunProcess({Bin("train"), "--solver=s.prototxt", "--watch=0", "--run=none"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "this run has none: give --run=DIR")) << result.err;
}

}  // namespace
}  // namespace crema::test
