// report: contents of the page, and its appearance in a browser (CREMA_CHROMIUM, or chromium on
// PATH).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/image/png.h"
#include "support/browser.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::TempDir;

constexpr const char* kHeader =
    "kind,iteration,epoch,time,loss,smoothed_loss,lr,samples_per_second,wait_share,net,blob,"
    "element,value\n";

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Metrics of a run that learns: `iterations` rows of training, a test at every tenth.
std::string Metrics(int iterations, double speed, const std::string& blob) {
  std::string csv = kHeader;
  for (int i = 0; i < iterations; ++i) {
    const double loss = 2.3 * std::exp(-speed * i) + 0.02;
    const std::string start = StrCat(i * 10, ",", i * 0.1, ",", 1700000000 + i * 2);
    csv += StrCat("train,", start, ",", loss + 0.1 * (i % 3), ",", loss, ",", 0.01 / (1 + i),
                  ",3000,0.04,,,,\n");
    if (i % 10 != 0) continue;
    csv += StrCat("test,", start, ",,,,,,0,", blob, ",0,", 1 - std::exp(-speed * i), "\n");
    csv += StrCat("test,", start, ",,,,,,0,loss,0,", loss * 1.1, "\n");
    csv += StrCat("test,", start, ",,,,,,0,,0,", loss * 1.1, "\n");
  }
  return csv;
}

class ReportPage : public ::testing::Test {
 protected:
  void WriteRun(const std::string& name, const std::string& metrics,
                const std::string& facts = R"({"net":"LeNet","solver_type":"SGD","seed":7})") {
    fs::create_directories(temp_.File(name));
    temp_.Write(name + "/metrics.csv", metrics);
    temp_.Write(name + "/run.json", facts);
  }
  void WriteEvaluation(const std::string& folder) {
    fs::create_directories(temp_.File(folder + "/worst"));
    temp_.Write(folder + "/summary.json",
                R"({"kind":"classification","samples":10,"top1":0.9,"macro":{"f1":0.5}})");
    temp_.Write(folder + "/per_class.csv", "class,name,recall\n0,cat,0.75\n1,<b>dog</b>,1\n");
    temp_.Write(folder + "/confusion_matrix.csv", "true,cat,<b>dog</b>\ncat,3,1\n<b>dog</b>,0,6\n");
    temp_.Write(folder + "/worst.csv",
                "rank,sample,name,label_name,predicted_name,probability,picture\n"
                "1,4,a.png,cat,<b>dog</b>,0.98,worst/001.png\n"
                "2,5,,cat,cat,0.5,../../run.json\n");
    std::string pixels;
    for (int i = 0; i < 12 * 8 * 3; ++i) pixels += static_cast<char>(i * 7);
    temp_.Write(
        folder + "/worst/001.png",
        EncodePng(
            {.width = 12, .height = 8, .channels = 3, .pixels = {pixels.begin(), pixels.end()}}));
  }
  ProcessResult Report(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Bin("report"));
    return test::RunProcess(arguments, temp_.path());
  }
  TempDir temp_;
};

TEST_F(ReportPage, TellsTheResultsOfRuns) {
  WriteRun("first", Metrics(41, 0.2, "accuracy"));
  WriteRun("second", Metrics(21, 0.1, "accuracy"),
           R"({"solver_type":"Adam","seed":9007199254740991,"unknown":[1,{}]})");
  const ProcessResult result = Report({"first", "second/", "-o", "r.html"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "r.html: 2 runs\n");
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "<title>first, second</title>"));
  EXPECT_TRUE(Contains(
      page, "Solver <b title=\"differs between the runs\">≠</b></th><td>SGD</td><td>Adam</td>"));
  EXPECT_TRUE(Contains(page, "≠</b></th><td>7</td><td>9007199254740991</td>"));
  EXPECT_TRUE(Contains(page, "<th scope=\"row\">Time</th><td>1 min 20 s</td><td>40.0 s</td>"));
  EXPECT_TRUE(Contains(page, "Test accuracy, best</th><td class=\"best\">0.9997 <small>at 400"));
  // The output "loss" is the total loss again.
  EXPECT_TRUE(Contains(page, "Test loss, last")) << page;
  EXPECT_FALSE(Contains(page, "<h3>loss</h3>"));
  EXPECT_TRUE(Contains(page, "<h3>Learning rate</h3>"));
}

TEST_F(ReportPage, NamesTheNewestWeightsOfARun) {
  const auto write = [&](const std::string& solver) {
    WriteRun("run", Metrics(11, 0.2, "accuracy"),
             StrCat(R"({"working_folder":")", temp_.path(), "\"}"));
    temp_.Write("run/solver.prototxt", solver);
    EXPECT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
    return temp_.Read("r.html");
  };
  const std::string row = "Weights</th><td>";
  EXPECT_FALSE(Contains(write("snapshot_prefix: 'out/s'"), row));
  fs::create_directories(temp_.File("out"));
  for (const char* end : {"_iter_9.solverstate", "_iter_10.solverstate", "_best.caffemodel"}) {
    temp_.Write(StrCat("out/s", end), "");
  }
  const std::string in = StrCat(" <small>in ", temp_.File("out"));
  EXPECT_TRUE(Contains(write("snapshot_prefix: 'out/s'"), row + "s_iter_10.caffemodel" + in));
  EXPECT_TRUE(Contains(write("snapshot_prefix: 'out/s' snapshot_best { metric: 'accuracy' }"),
                       row + "s_best.caffemodel" + in));
}

TEST_F(ReportPage, ReplacesItsOwnPagesAndNothingElse) {
  WriteRun("first", Metrics(3, 0.2, "accuracy"));
  WriteRun("second", Metrics(3, 0.1, "accuracy"));
  ASSERT_EQ(Report({"first"}).exit_code, 0);
  const std::string page = temp_.Read("report.html");
  const ProcessResult again = Report({"second"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_FALSE(temp_.Read("report.html") == page);
  temp_.Write("report.html", "<html>my notes</html>");
  const ProcessResult refused = Report({"first"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(Contains(refused.err, "'report.html' exists already and is no page of this version"))
      << refused.err;
  EXPECT_EQ(temp_.Read("report.html"), "<html>my notes</html>");
  EXPECT_EQ(Report({"first", "-o", "report.html"}).exit_code, 0);
}

TEST_F(ReportPage, NamesTheWeightsOfTheEvaluation) {
  WriteRun("run", Metrics(11, 0.2, "accuracy"));
  WriteEvaluation("run/evaluation");
  const std::string summary = temp_.Read("run/evaluation/summary.json");
  for (const auto& [iteration, note] :
       {std::pair("101", ""), std::pair("40", "the run has reached iteration 101 since")}) {
    temp_.Write("run/evaluation/summary.json", StrCat("{\"weights\":\"out/x_iter_", iteration,
                                                      ".caffemodel\",", summary.substr(1)));
    ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
    const std::string page = temp_.Read("r.html");
    EXPECT_TRUE(Contains(page, StrCat("weights out/x_iter_", iteration, ".caffemodel")));
    EXPECT_EQ(Contains(page, "the run has reached"), *note != '\0');
    EXPECT_TRUE(Contains(page, note));
  }
}

TEST_F(ReportPage, NeedsNothingElse) {
  WriteRun("run", Metrics(11, 0.2, "accuracy"));
  WriteEvaluation("run/evaluation");
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = Replaced(temp_.Read("r.html"), "http://www.w3.org/2000/svg", "");
  for (const char* reference :
       {"http:", "https:", "@import", "<link", " href=", "src=\"/", "//cdn"}) {
    EXPECT_FALSE(Contains(page, reference)) << reference;
  }
  EXPECT_TRUE(Contains(page, "default-src 'none'"));
  EXPECT_TRUE(Contains(page, "name=\"viewport\""));
}

TEST_F(ReportPage, NamesAreNeverMarkup) {
  const std::string evil = "</script><script>alert(1)</script>";
  WriteRun("run", Metrics(11, 0.2, evil), R"({"net":"<img src=x onerror=alert(2)>"})");
  temp_.Write("run/solver.prototxt", "# </pre><script>alert(3)</script>");
  const ProcessResult result = Report({"run", "-o", "r.html", "--title=<script>alert(4)</script>"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = temp_.Read("r.html");
  EXPECT_FALSE(Contains(page, "<script>alert"));
  EXPECT_FALSE(Contains(page, "<img src=x"));
  EXPECT_TRUE(Contains(page, "&lt;script&gt;alert(4)"));
  EXPECT_TRUE(Contains(page, "\\u003c/script>\\u003cscript>alert(1)"));
}

TEST_F(ReportPage, ShowsTheEvaluation) {
  WriteRun("run", Metrics(11, 0.2, "accuracy"));
  WriteEvaluation("run/evaluation");
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "<b>90.00 %</b><span>top-1 accuracy"));
  EXPECT_TRUE(Contains(page, "<b>50.00 %</b><span>macro F1"));
  EXPECT_TRUE(Contains(page, "title=\"cat as &lt;b&gt;dog&lt;/b&gt;: 25.0 %\">1</td>"));
  EXPECT_TRUE(Contains(page, "src=\"data:image/png;base64,iVBORw0KGgo"));
  EXPECT_TRUE(Contains(page, "a.png</small>"));
  EXPECT_TRUE(Contains(page, "sample 5</small>"));
  EXPECT_FALSE(Contains(page, "<b>dog"));
}

TEST_F(ReportPage, AnEvaluationMayStandAlone) {
  WriteEvaluation("only");
  ASSERT_EQ(Report({"only", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "Evaluation of only"));
  EXPECT_FALSE(Contains(page, "<h2>Curves"));
}

TEST_F(ReportPage, ReadsWhatAKilledRunLeft) {
  WriteRun("run", Metrics(11, 0.2, "accuracy") + "train,110,1.1,17000", "{\"net\":");
  const ProcessResult result = Report({"run", "-o", "r.html"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(temp_.Read("r.html"), "Iterations</th><td>101</td>"));
}

TEST_F(ReportPage, WarnsAboutDamagedFiles) {
  WriteRun("half", Metrics(11, 0.2, "accuracy"), "{\"net\":");
  WriteRun("none", "");
  WriteRun("other", "a,b,c\n");
  const ProcessResult result = Report({"half", "none", "other", "-o", "r.html"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* fault : {"half/run.json is damaged", "none/metrics.csv is empty",
                            "other/metrics.csv is no table of a run"}) {
    EXPECT_TRUE(Contains(result.err, fault)) << result.err;
  }
}

// The run does not count time that the clock was set back by.
TEST_F(ReportPage, AClockThatGoesBackTakesNoTime) {
  WriteRun("run", StrCat(kHeader, "train,0,0,1000,1,,,,,,,,\n", "train,1,0,1010,1,,,,,,,,\n",
                         "train,2,0,500,1,,,,,,,,\n", "train,3,0,505,1,,,,,,,,\n"));
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  EXPECT_TRUE(Contains(temp_.Read("r.html"), "\"seconds\":[0,10,10,15]"));
}

TEST_F(ReportPage, APauseBeforeAResumeTakesNoTime) {
  WriteRun("run", StrCat(kHeader, "train,0,0,1767225600,1,,,,,,,,\n",  // 2026-01-01 00:00:00
                         "train,1,0,1767225610,1,,,,,,,,\n", "train,2,0,1767229203,1,,,,,,,,\n"));
  temp_.Write("run/starts.jsonl",
              "{\"time\":\"2025-12-31T23:59:59.500000Z\"}\n"
              "{\"time\":\"2026-01-01T01:00:00.000000Z\"}\nbroken\n");
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "\"seconds\":[0,10,13]")) << page;
  EXPECT_TRUE(Contains(page, "2025-12-31 <small>23:59 UTC, resumed once</small>"));
}

TEST_F(ReportPage, ShowsSettingsAndMarksWhatDiffers) {
  for (const auto& [name, rate] : {std::pair("a", "0.01"), std::pair("b", "0.0005")}) {
    WriteRun(name, Metrics(3, 0.2, "accuracy"));
    temp_.Write(StrCat(name, "/solver.prototxt"),
                StrCat("base_lr: ", rate,
                       " lr_policy: \"fixed\" momentum: 0.9 display: ", *name == 'a' ? 10 : 20,
                       " snapshot_prefix: \"", name, "\" no_such_field: 1"));
    temp_.Write(
        StrCat(name, "/net.prototxt"),
        "precision: BF16 layer { name: 't' type: 'Data' include { phase: TEST } data_param { "
        "batch_size: 100 } } layer { name: 'd' type: 'Data' data_param { batch_size: 64 } }");
  }
  temp_.Write(
      "b/starts.jsonl",
      "{\"command\":[\"train\",\"--set\",\"layer[ip].inner_product_param.num_output=5\"]}\n");
  ASSERT_EQ(Report({"a", "b", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  const std::string mark = " <b title=\"differs between the runs\">≠</b></th>";
  for (const std::string& row : {"base_lr" + mark + "<td>0.01</td><td>0.0005</td>",
                                 "display" + mark + "<td>10</td><td>20</td>",
                                 "layer[ip].<wbr>inner_product_param.<wbr>num_output" + mark +
                                     "<td>as in the file</td><td>5</td>",
                                 std::string("momentum</th><td>0.9</td><td>0.9</td>"),
                                 std::string("batch_size</th><td>64</td><td>64</td>"),
                                 std::string("precision</th><td>BF16</td><td>BF16</td>")}) {
    EXPECT_TRUE(Contains(page, "<th scope=\"row\">" + row)) << row;
  }
  EXPECT_FALSE(Contains(page, "row\">snapshot_prefix"));
  EXPECT_TRUE(Contains(page, "only what differs"));
  ASSERT_EQ(Report({"a", "-o", "one.html"}).exit_code, 0);
  EXPECT_FALSE(Contains(temp_.Read("one.html"), "≠</b>"));
  EXPECT_FALSE(Contains(temp_.Read("one.html"), "only what differs"));
}

TEST_F(ReportPage, DrawsNoCurveTwice) {
  std::string csv = kHeader;
  for (int i = 0; i < 4; ++i) {
    // average_loss is 1; the output has no row for the last iteration; tests log no total loss.
    csv += StrCat("train,", i, ",0,", i, ",", 2 - i, ",", 2 - i, ",,,,,,,\n");
    if (i < 3) csv += StrCat("output,", i, ",0,", i, ",,,,,,,loss,0,", 2 - i, "\n");
    csv += StrCat("test,", i, ",0,", i, ",,,,,,0,loss,0,", 3 - i, "\n");
  }
  WriteRun("run", csv);
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "<h3>Total loss</h3>"));
  EXPECT_FALSE(Contains(page, "<h3>loss</h3>"));
  EXPECT_FALSE(Contains(page, "train, each"));
  EXPECT_TRUE(Contains(page, "\"label\":\"test\",\"style\":\"marked\",\"iteration\":[0,1,2,3]"));
}

TEST_F(ReportPage, AFolderOfRunsIsOrderedByTheBestResult) {
  for (const std::string folder : {"sweep/poor", "sweep/deep/good", "sweep/bad/evaluation",
                                   "sweep/deep/too/far/down", "sweep/empty"}) {
    fs::create_directories(temp_.File(folder));
  }
  WriteRun("sweep/poor", Metrics(11, 0.01, "accuracy"));
  WriteRun("sweep/deep/good", Metrics(11, 0.5, "accuracy"));
  WriteRun("sweep/bad", Metrics(11, 0.1, "accuracy"));
  WriteRun("sweep/deep/too/far/down", Metrics(11, 0.9, "accuracy"));
  temp_.Write("sweep/bad/evaluation/summary.json", "no");
  const ProcessResult result = Report({"sweep", "-o", "r.html"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "r.html: 3 runs\n");
  EXPECT_TRUE(Contains(result.err, "the evaluation of sweep/bad is left out")) << result.err;
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "ordered by best test accuracy"));
  EXPECT_TRUE(Contains(page, "\"runs\":[\"deep/good\",\"bad\",\"poor\"]"));
  EXPECT_TRUE(Contains(page, "the evaluation of sweep/bad is left out"));
  EXPECT_EQ(Report({"sweep/empty", "-o", "e.html"}).exit_code, 2);
}

TEST_F(ReportPage, RunsOfOneNameHaveTheirPaths) {
  WriteRun("a/run", Metrics(2, 0.2, "accuracy"));
  WriteRun("b/run", Metrics(2, 0.2, "accuracy"));
  ASSERT_EQ(Report({"a/run", "b/run", "-o", "r.html"}).exit_code, 0);
  EXPECT_TRUE(Contains(temp_.Read("r.html"), "\"runs\":[\"a/run\",\"b/run\"]"));
}

TEST_F(ReportPage, ReadsJsonLines) {
  fs::create_directories(temp_.File("run"));
  temp_.Write("run/metrics.jsonl",
              "{\"kind\":\"train\",\"iteration\":0,\"time\":5,\"loss\":2.5,\"future\":[1]}\n"
              "{\"kind\":\"train\",\"iteration\":10,\"time\":9.5,\"loss\":1.25}\n"
              "{\"kind\":\"train\",\"iteration\":20,\"time\":9.5,\"loss\":null}\n"
              "{\"kind\":\"train\",\"iter");
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_TRUE(Contains(page, "\"iteration\":[0,10,20]"));
  EXPECT_TRUE(Contains(page, "\"value\":[2.5,1.25,null]"));
  EXPECT_TRUE(Contains(page, "\"seconds\":[0,4.5,4.5]"));
  EXPECT_TRUE(Contains(page, "1 rows of its metrics could not be read"));
}

TEST_F(ReportPage, LongCurvesAreThinnedAndKeepTheirExtremes) {
  std::string csv = kHeader;
  for (int i = 0; i < 50000; ++i) {
    csv += StrCat("train,", i, ",0,", i, ",", i == 31234 ? 77.5 : 1 + i % 7, ",,0.01,,,,,,\n");
  }
  WriteRun("run", csv);
  ASSERT_EQ(Report({"run", "-o", "r.html"}).exit_code, 0);
  const std::string page = temp_.Read("r.html");
  EXPECT_LT(page.size(), 150000U);
  EXPECT_TRUE(Contains(page, "77.5"));
  EXPECT_TRUE(Contains(page, ",49999]"));
}

TEST_F(ReportPage, RefusesWhatIsNoRun) {
  fs::create_directories(temp_.File("empty"));
  const auto expect = [&](std::vector<std::string> arguments, int code,
                          const std::string& message) {
    const ProcessResult result = Report(std::move(arguments));
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
    EXPECT_FALSE(fs::exists(temp_.File("r.html")));
  };
  expect({"-o", "r.html"}, 2, "name at least one run folder");
  expect({"missing", "-o", "r.html"}, 2, "'missing' is not a folder");
  expect({"empty", "-o", "r.html"}, 2, "holds neither metrics.csv nor an evaluation");
  WriteEvaluation("bad");
  temp_.Write("bad/confusion_matrix.csv", "true,cat\ncat\n");
  expect({"bad", "-o", "r.html"}, 3, "its lines differ in length");
  temp_.Write("bad/summary.json", "no");
  expect({"bad", "-o", "r.html"}, 3, "is not JSON");
  WriteRun("run", Metrics(2, 0.2, "accuracy"));
  expect({"run", "-o", "nowhere/r.html"}, 3, "nowhere");
}

// The page in a frame of a given width, for browsers do not make narrow windows; and what a visitor
// with a pointer finds there, as attributes of the outer document.
constexpr const char* kProbe = R"JS(
const wait = () => new Promise(done => setTimeout(done, 50));
const probe = frame => {
  if (frame.probed) return;  // a frame may load an empty page first
  frame.probed = true;
  const told = document.body.dataset;
  (async () => {
    for (let i = 0; i < 60 && !frame.contentDocument.querySelector('.tip'); ++i) await wait();
    const page = frame.contentDocument, view = frame.contentWindow;
    const all = selector => [...page.querySelectorAll(selector)];
    const curves = () => all('.plot .curve').filter(p => p.getAttribute('d').length > 20).length;
    told.width = view.innerWidth;
    told.overflow = page.documentElement.scrollWidth - view.innerWidth;
    told.charts = all('.chart svg[role=img]').length;
    told.curves = curves();
    const plot = page.querySelector('.plot'), box = plot.getBoundingClientRect();
    plot.dispatchEvent(new view.PointerEvent('pointermove',
        {clientX: box.left + box.width * 0.7, clientY: box.top + 40}));
    told.tip = page.querySelector('.tip').textContent;
    const tip = page.querySelector('.tip').getBoundingClientRect();
    told.tipInside = tip.left >= box.left && tip.right <= box.right + 1;
    page.querySelector('.log').click();
    page.querySelector('[data-axis=seconds]').click();
    await wait();
    told.ticks = all('.plot')[0].querySelector('svg').textContent;
    page.querySelector('[data-run="1"]').click();
    await wait();
    told.afterHiding = curves();
    const ends = () => [...page.querySelectorAll('.plot')[0].querySelectorAll('.tick')]
        .map(tick => tick.textContent).filter(text => /[0-9] (s|min)$/.test(text)).join();
    const whole = ends();
    const pointer = (kind, at, target) => target.dispatchEvent(new view.PointerEvent(kind,
        {clientX: box.left + at, clientY: box.top + 40, button: 0, bubbles: true}));
    pointer('pointerdown', 100, plot);
    pointer('pointermove', 150, plot);
    told.band = all('.band').length;
    pointer('pointerup', 150, plot);
    told.zoomed = ends() !== whole && all('.band').length === 0;
    plot.dispatchEvent(new view.MouseEvent('dblclick', {bubbles: true}));
    told.reset = ends() === whole;
    const press = key => plot.dispatchEvent(new view.KeyboardEvent('keydown', {key, bubbles: true}));
    press('+');
    told.byKey = ends() !== whole;
    press('ArrowRight');
    told.read = page.querySelector('.tip').textContent.startsWith('after');
    press('0');
    const slider = page.querySelector('#smoothing');
    slider.value = 90;
    slider.dispatchEvent(new view.Event('input'));
    told.smoothed = curves();
    told.errors = page.documentElement.dataset.errors || 'none';
    told.title = page.title;
  })().catch(error => { told.errors = String(error); });
};
)JS";
constexpr const char* kListen =
    "<script>for (const kind of ['error', 'securitypolicyviolation']) addEventListener(kind, e => "
    "document.documentElement.dataset.errors = e.message || e.violatedDirective || e.target, "
    "true);</script>";

class ReportInBrowser : public ReportPage, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    if (test::Chromium().empty()) GTEST_SKIP() << "no Chromium here: set CREMA_CHROMIUM";
    WriteRun("first", Metrics(41, 0.2, "accuracy"));
    WriteRun("second_run_with_a_name_that_goes_on_and_on_for_longer_than_a_phone_is_wide",
             Metrics(21, 0.1, "\"<script>document.title='run'</script>\""));
    WriteEvaluation("first/evaluation");
    const ProcessResult result = Report(
        {"first", "second_run_with_a_name_that_goes_on_and_on_for_longer_than_a_phone_is_wide",
         "-o", "r.html", "--title=Two runs"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::string page = Replaced(temp_.Read("r.html"), "<title>", std::string(kListen) + "<title>");
    page = Replaced(Replaced(page, "&", "&amp;"), "\"", "&quot;");
    temp_.Write("frame.html", StrCat("<!doctype html><script>", kProbe,
                                     "</script><body style=\"margin:0\"><iframe "
                                     "onload=\"probe(this)\" width=",
                                     GetParam(), " height=1600 style=\"border:0\" srcdoc=\"", page,
                                     "\"></iframe>"));
  }
  ProcessResult Browse(const std::string& action) const {
    return test::Browse(temp_.File("frame.html"), action, std::max(500, GetParam()), 1600,
                        temp_.path());
  }
};

TEST_P(ReportInBrowser, DrawsTheCurvesAndFitsTheScreen) {
  const ProcessResult result = Browse("--dump-dom");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto is = [&](const std::string& name, const std::string& value) {
    EXPECT_EQ(test::BodyData(result.out, name), value) << name;
  };
  is("errors", "none");
  is("title", "Two runs");
  is("width", std::to_string(GetParam()));
  is("overflow", "0");
  // Loss, accuracy, the other output, learning rate, speed, waiting: 6 + 1 + 1 + 2 + 2 + 2 curves.
  is("charts", "6");
  is("curves", "14");
  is("after-hiding", "7");
  is("tip-inside", "true");
  is("band", "1");
  for (const char* name : {"zoomed", "reset", "by-key", "read"}) is(name, "true");
  is("smoothed", "10");  // raw curves of loss, speed and waiting behind the smoothed ones
  const std::string tip = test::BodyData(result.out, "tip");
  EXPECT_TRUE(tip.starts_with("iteration")) << tip;
  EXPECT_TRUE(Contains(tip, "first, test")) << tip;
  const std::string ticks = test::BodyData(result.out, "ticks");  // on the axis of time
  EXPECT_TRUE(Contains(ticks, GetParam() > 500 ? "20 s40 s60 s80 s" : "30 s60 s")) << ticks;
}

TEST_P(ReportInBrowser, CanBePhotographed) {
  const ProcessResult result = Browse("--screenshot=" + temp_.File("shot.png"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string png = temp_.Read("shot.png");
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_GT(png.size(), 20000U);  // an empty page has a few thousand bytes
  if (const char* keep = std::getenv("CREMA_SCREENSHOTS"); keep != nullptr) {
    fs::copy_file(temp_.File("shot.png"), StrCat(keep, "/report_", GetParam(), ".png"),
                  fs::copy_options::overwrite_existing);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, ReportInBrowser, ::testing::Values(1280, 390));

}  // namespace
}  // namespace crema
