// The rule for output files: what is read, and what is another kind of file, is not replaced.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "format/npy.h"
#include "tools/data_set.h"
#include "tools/run_folder.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::RunProcess;

class OutputFiles : public test::RunFolder {
 protected:
  void SetUp() override {
    RunFolder::SetUp();
    temp_.Write("deploy.prototxt", R"(input: "data" input_shape { dim: 1 dim: 1 dim: 6 dim: 6 }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 16 } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 4 } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
)");
    const ProcessResult trained = Command({"train", "solver.prototxt", "--run=run", "-q"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    temp_.Write("0.png", test::Png(test::Pattern(6, 6, 1)));
    temp_.Write("list", "0.png\n");
    fs::copy(temp_.File(kWeights), temp_.File("w.npy"));
    fs::copy(temp_.File("net.prototxt"), temp_.File("n.png"));
    fs::copy(temp_.File("net.prototxt"), temp_.File("n.dot"));
    fs::copy(temp_.File("list"), temp_.File("l.npy"));
  }

  ProcessResult Command(std::vector<std::string> words) const {
    words[0] = Bin(words[0]);
    return RunProcess(words, temp_.path());
  }

  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(temp_.path())) {
      const std::string name = fs::relative(entry.path(), temp_.path()).string();
      files[name] = entry.is_regular_file() ? temp_.Read(name) : "";
    }
    return files;
  }

  static constexpr const char* kWeights = "snap_iter_8.caffemodel";
};

struct Refusal {
  std::vector<std::string> words;
  std::string text;
};

TEST_F(OutputFiles, WhatACommandReadsOrAnotherKindOfFileStaysAsItIs) {
  const std::string weights = StrCat("--weights=", kWeights);
  const std::vector<Refusal> refusals = {
      {{"report", "run", "-o", "run/metrics.csv"}, "-o writes an HTML page, but run/metrics.csv"},
      {{"report", "run", "-o", "r.pdf"}, "write to a file that ends in .html"},
      {{"report", "run", "-o", "list"}, "-o would replace list, which is a text, by an HTML page"},
      {{"deploy", "export", "--model=deploy.prototxt", weights, StrCat("--write_net=", kWeights)},
       "--write_net would replace snap_iter_8.caffemodel, which is read"},
      {{"deploy", "classify", "--model=deploy.prototxt", weights, "--list=l.npy", "--npy=l.npy"},
       "--npy would replace l.npy, which is read"},
      {{"deploy", "classify", "--model=deploy.prototxt", "--weights=w.npy", "--npy=w.npy", "0.png"},
       "--npy would replace w.npy, which is read"},
      {{"plot_lr", "solver.prototxt", "--csv=solver.prototxt"},
       "--csv would replace solver.prototxt, which is read"},
      {{"plot_lr", "solver.prototxt", "--csv=net.prototxt"}, "has the extension of a prototxt"},
      {{"plot_lr", "solver.prototxt", "--csv=n.png"}, "has the extension of a picture"},
      {{"plot_lr", "solver.prototxt", "--csv=list"}, "which is a text, by a table"},
      {{"plot_lr", "solver.prototxt", "--png=n.png"}, "which is a prototxt, by a picture"},
      {{"lr_find", "solver.prototxt", "--csv=./solver.prototxt"}, "which is read"},
      {{"profile", "net.prototxt", "--trace=net.prototxt"}, "which is read"},
      {{"replay", "net.prototxt", "--golden=net.prototxt", "--record"}, "which is read"},
      {{"replay", "net.prototxt", "--golden=list", "--record"},
       "which is a text, by a mean image or recording"},
      {{"extract_features", "--model=net.prototxt", "--weights=w.npy", "--blobs=ip1",
        "--outputs=w.npy"},
       "--outputs would replace w.npy, which is read"},
      {{"extract_features", "--model=net.prototxt", weights, "--blobs=ip1,ip2",
        "--outputs=f.npy,./f.npy"},
       "--outputs: ./f.npy is written twice"},
      {{"extract_features", "w.npy", "net.prototxt", "ip1", "w.npy", "1"},
       "--outputs would replace w.npy, which is read"},
      {{"draw", "n.dot", "n.dot"}, "-o would replace n.dot, which is read"},
      {{"show_batch", "--model=n.png", "-o", "n.png"}, "which is read"},
      {{"compute_image_mean", "train_lmdb", "net.prototxt"},
       "OUTPUT_FILE writes a mean image or recording"},
      {{"compute_image_mean", "train_lmdb", kWeights}, "has the extension of weights"},
      {{"convert_imageset", "--classes=solver.prototxt", "run", "db"}, "--classes writes a text"},
      {{"train", "solver.prototxt", "--run=train_lmdb"}, "train_lmdb is a data set"},
      {{"evaluate", "net.prototxt", kWeights, "--report=test_lmdb"}, "test_lmdb is a data set"},
      {{"import", "m.onnx", "-o", "imp.prototxt"}, "-o takes a folder here"},
      {{"convert_db", "test_lmdb", "test_lmdb"}, "exists already; choose another path"},
      {{"new", "run", "-o", "run"}, "exists already; choose another name"},
  };
  temp_.Write("m.onnx", "");
  const auto before = Files();
  for (const Refusal& refusal : refusals) {
    const ProcessResult result = Command(refusal.words);
    EXPECT_EQ(result.exit_code, 2) << Join(refusal.words, " ") << result.err;
    EXPECT_TRUE(Contains(result.err, refusal.text)) << Join(refusal.words, " ") << result.err;
    EXPECT_FALSE(Contains(result.err, "remove")) << result.err;
  }
  EXPECT_TRUE(Files() == before);  // without the bytes of all files in the log
}

TEST_F(OutputFiles, AFileOfTheSameKindIsReplaced) {
  const std::string weights = StrCat("--weights=", kWeights);
  std::vector<std::vector<std::string>> commands = {
      {"report", "run", "-o", "run/page.html"},
      {"report", "run", "-o", "a,b.html", "--title=a,b.html"},
      {"upgrade", "net.prototxt", "-o", "out.txt"},
      {"train", "solver.prototxt", "--run=none", "-q", "--log_format=text", "--log_format=json"},
      {"plot_lr", "solver.prototxt", "--csv=lr.csv"},
      {"plot_lr", "solver.prototxt", "--csv=lr"},
      {"profile", "net.prototxt", "--iterations=1", "--trace=t.json"},
      {"replay", "net.prototxt", "--golden=g", "--record"},
      {"draw", "net.prototxt", "net.dot"},
      {"show_batch", "--model=net.prototxt", "-o", "sheet.png"},
      {"compute_image_mean", "train_lmdb", "mean.binaryproto"},
      {"compute_image_mean", "train_lmdb", "mean"},
      {"extract_features", "--model=net.prototxt", weights, "--blobs=ip1", "--outputs=f.npy"},
      {"extract_features", "--model=net.prototxt", weights, "--blobs=ip1", "--outputs=f.h5"},
      {"deploy", "export", "--model=deploy.prototxt", weights, "-o", "m.crema"},
      {"deploy", "export", "--model=deploy.prototxt", weights, "--write_net=d.prototxt"},
  };
  const bool has_graphviz = std::system("dot -V 2>/dev/null") == 0;
  if (has_graphviz) commands.push_back({"draw", "net.prototxt", "net.html"});
  for (const std::vector<std::string>& words : commands) {
    for (int time = 0; time < 2; ++time) {
      const ProcessResult result = Command(words);
      EXPECT_EQ(result.exit_code, 0) << Join(words, " ") << result.err;
    }
  }
}

TEST_F(OutputFiles, PipesAreRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(temp_.File("p").c_str(), 0600), 0);
  const std::string weights = StrCat("--weights=", kWeights);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"summary", "p"},
           {"check", "p"},
           {"train", "p"},
           {"deploy", "classify", "--model=p", weights, "0.png"},
           {"deploy", "classify", "--model=deploy.prototxt", weights, "--labels=p", "0.png"},
           {"deploy", "classify", "--model=deploy.prototxt", weights, "p"},
           {"evaluate", "net.prototxt", "p"}}) {
    std::vector<std::string> command = {"/usr/bin/timeout", "20", Bin(words[0])};
    command.insert(command.end(), words.begin() + 1, words.end());
    const ProcessResult result = RunProcess(command, temp_.path());
    EXPECT_TRUE(result.exit_code == 2 || result.exit_code == 3) << Join(words, " ") << result.err;
    EXPECT_TRUE(Contains(result.err, "is a pipe or a device; give a file")) << result.err;
  }
}

}  // namespace
}  // namespace crema
