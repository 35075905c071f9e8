// draw: pictures, and the interactive page, also in a browser (support/browser.h).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "runtime/weights.h"
#include "support/browser.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::TempDir;

constexpr const char* kDrawnNet = R"(name: "small"
layer { name: "in" type: "Input" top: "data" top: "label" input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } shape { dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 weight_filler { value: 0.5 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "</script><b>ip</b>" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

constexpr const char* kProfile =
    R"({"layers":[{"name":"conv","share":0.75,"forward":{"median_ms":3},"backward":null},)"
    R"({"name":"relu","share":0.25,"forward":{"median_ms":1},"backward":{"median_ms":0.5}}]})";

class Draw : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("net.prototxt", kDrawnNet);
    temp_.Write("profile.json", kProfile);
    const auto plan = test::PlanText(kDrawnNet, TEST);
    WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("m.caffemodel"));
  }
  ProcessResult Run(const std::string& picture, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> command = {Bin("draw"), "net.prototxt", "-o", picture};
    command.insert(command.end(), flags.begin(), flags.end());
    return test::RunProcess(command, temp_.path());
  }
  static bool HasGraphviz() { return std::system("dot -V 2>/dev/null") == 0; }
  TempDir temp_;
};

TEST_F(Draw, BoxesHaveTheShapesOfAllOutputs) {
  ASSERT_EQ(Run("net.dot").exit_code, 0);
  const std::string dot = temp_.Read("net.dot");
  EXPECT_TRUE(Contains(dot, "label=\"in\\nInput\\ndata 4x3x6x6, label 4\"")) << dot;
  EXPECT_TRUE(Contains(dot, "Convolution 3x3, 2 outputs\\n+ relu (ReLU)\\n4x2x4x4\"")) << dot;
}

TEST_F(Draw, PlanAndTimesAreLinesOfTheBoxes) {
  ASSERT_EQ(Run("net.dot", {"--plan", "--profile=profile.json"}).exit_code, 0);
  const std::string dot = temp_.Read("net.dot");
  EXPECT_TRUE(Contains(dot, "; 3 ms, 75.0 %\\n+ relu (ReLU)\\n1.5 ms, 25.0 %\\n4x2x4x4")) << dot;
}

TEST_F(Draw, ElementsOfAnSvgHaveTitles) {
  if (!HasGraphviz()) GTEST_SKIP() << "no Graphviz here";
  ASSERT_EQ(Run("net.svg").exit_code, 0);
  const std::string svg = temp_.Read("net.svg");
  EXPECT_TRUE(Contains(svg,
                       "<title>conv: Convolution 3x3, 2 outputs; weight 2x3x3x3; bias 2\n"
                       "relu: ReLU</title>"))
      << svg;
  EXPECT_TRUE(Contains(svg, "<title>label 4</title>"));
  EXPECT_TRUE(Contains(svg, "<title>&lt;/script&gt;&lt;b&gt;ip"));
  EXPECT_FALSE(Contains(svg, "<!--"));
}

TEST_F(Draw, ThePageHasWeightsPlanAndTimes) {
  if (!HasGraphviz()) GTEST_SKIP() << "no Graphviz here";
  const ProcessResult result =
      Run("net.html", {"--weights=m.caffemodel", "--plan", "--profile=profile.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = temp_.Read("net.html");
  EXPECT_TRUE(Contains(page,
                       "\"role\":\"weight\",\"shape\":\"2x3x3x3\",\"count\":54,"
                       "\"histogram\":{\"low\":0.5,\"high\":0.5,\"mean\":0.5"))
      << page;
  EXPECT_TRUE(Contains(page, "\"implementation\":\""));
  EXPECT_TRUE(Contains(page, "\"times\":{\"forward\":1,\"backward\":0.5,\"share\":0.25}"));
  EXPECT_TRUE(Contains(page, "default-src 'none'"));
  EXPECT_FALSE(Contains(page, "</script><b>"));
  for (const char* reference : {"https:", "@import", "<link", " href=", "src="}) {
    EXPECT_FALSE(Contains(page, reference)) << reference;
  }
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    EXPECT_FALSE(Contains(entry.path().string(), ".tmp.")) << entry.path();
  }
}

TEST_F(Draw, RefusesWhatDoesNotFit) {
  temp_.Write("other.json", R"({"layers":[{"name":"x","forward":{"median_ms":3}}]})");
  temp_.Write("no.json", "[1]");
  const auto expect = [&](const std::string& picture, const std::string& flag, int code,
                          const std::string& message) {
    const ProcessResult result = Run(picture, {flag});
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
    EXPECT_FALSE(fs::exists(temp_.File(picture)));
  };
  expect("n.dot", "--profile=other.json", 2, "has no layer of this net");
  expect("n.dot", "--profile=no.json", 3, "has no times of layers");
  expect("n.dot", "--profile=missing.json", 2, "missing.json");
  expect("n.dot", "--weights=m.caffemodel", 2, "-o FILE.html");
  expect("n.jpg", "--plan", 2, "it ends in .html, .svg, .png, .pdf or .dot");
  expect("n.dot", "second.prototxt", 2, "second.prototxt");
  expect("none/n.svg", "--plan", 3, "none/n.svg: cannot be written: the folder 'none'");
}

// What a visitor finds, as attributes of <body>.
constexpr const char* kVisit = R"JS(<script>
const told = document.body.dataset;
addEventListener('securitypolicyviolation', event => told.errors = event.violatedDirective);
const press = (where, key) =>
    where.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
const view = document.getElementById('view'), svg = view.querySelector('svg');
const search = document.getElementById('search'), all = s => [...document.querySelectorAll(s)];
told.layers = all('#list button').length;
press(document.body, '/');
told.focus = document.activeElement.id;
search.value = 'CONVOL';
search.dispatchEvent(new Event('input'));
told.matches = all('.node.match').length + ' of ' + all('.node').length;
press(search, 'Enter');
const details = document.getElementById('details');
told.details = details.textContent;
told.bars = details.querySelectorAll('.bars rect').length;
told.near = all('.edge.near').length;
const before = svg.getAttribute('viewBox');
press(view, '+');
told.zoomed = svg.getAttribute('viewBox') !== before;
press(view, '0');
told.wide = svg.viewBox.baseVal.height >= 200;
all('.node')[0].dispatchEvent(new MouseEvent('click', {bubbles: true}));
told.chosen = details.querySelector('h2').textContent;
told.overflow = document.documentElement.scrollWidth - innerWidth;
</script></body>)JS";

TEST_F(Draw, ThePageIsSearchedZoomedAndRead) {
  if (!HasGraphviz()) GTEST_SKIP() << "no Graphviz here";
  if (test::Chromium().empty()) GTEST_SKIP() << "no Chromium here: set CREMA_CHROMIUM";
  ASSERT_EQ(Run("net.html", {"--weights=m.caffemodel", "--profile=profile.json"}).exit_code, 0);
  std::string page = temp_.Read("net.html");
  page.replace(page.find("</body>"), 7, kVisit);
  temp_.Write("visit.html", page);
  const ProcessResult result =
      test::Browse(temp_.File("visit.html"), "--dump-dom", 1280, 800, temp_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto told = [&](const std::string& name) { return test::BodyData(result.out, name); };
  EXPECT_EQ(told("errors"), "");
  EXPECT_EQ(told("layers"), "5");
  EXPECT_EQ(told("focus"), "search");
  EXPECT_EQ(told("matches"), "1 of 5");  // with the output of the net
  const std::string details = told("details");
  for (const char* text :
       {"4x3x6x6", "weight, 2x3x3x3", "kernel_size: 3", "3 ms forward", "relu"}) {
    EXPECT_TRUE(Contains(details, text)) << details;
  }
  EXPECT_EQ(told("bars"), "96");
  EXPECT_EQ(told("near"), "2");
  EXPECT_EQ(told("zoomed"), "true");
  EXPECT_EQ(told("wide"), "true");
  EXPECT_EQ(told("chosen"), "in");
  EXPECT_EQ(told("overflow"), "0");
  if (const char* keep = std::getenv("CREMA_SCREENSHOTS"); keep != nullptr) {
    test::Browse(temp_.File("visit.html"), StrCat("--screenshot=", keep, "/draw.png"), 1280, 800,
                 temp_.path());
  }
}

}  // namespace
}  // namespace crema
