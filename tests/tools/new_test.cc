// new, for pictures with one class each.
#ifdef CREMA_HAVE_OPENCV
#include <algorithm>
#include <csignal>
#include <set>

#include "tools/job_folder.h"
#include "tools/stopped.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class NewClassify : public JobFolder {};

const LayerParameter* LayerOf(const NetParameter& net, const std::string& name) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.name() == name) return &layer;
  }
  return nullptr;
}

TEST_F(NewClassify, ClassFoldersBecomeAModelByThePrintedCommandsAlone) {
  AddClasses("train", 3, 16);
  const std::string out = Made({"--images=train", "--epochs=50", "--batch=8"});
  EXPECT_TRUE(Contains(out, "48 pictures of 3 classes in class folders: 42 to train, 6 to test"))
      << out;
  EXPECT_TRUE(Contains(out, "The net is lenet, its input 28x28, gray")) << out;
  EXPECT_EQ(temp_.Read("job/labels.txt"), "a\nb\nc\n");
  Run("train", {"--solver=job/solver.prototxt", "--threads=1"});
  EXPECT_TRUE(Contains(Run("evaluate", {"--model=job/train_val.prototxt",
                                        "--weights=job/runs/lenet_best.caffemodel"}),
                       "accuracy = 1\n"));
  const std::string readme = temp_.Read("job/README.md");
  EXPECT_TRUE(Contains(readme,
                       "crema deploy export --run=job/runs/lenet_run -o "
                       "job/service/job/1/model.crema\n"))
      << readme;
  fs::create_directories(temp_.File("job/service/job/1"));
  Run("deploy", {"export", "--run=job/runs/lenet_run", "-o", "job/service/job/1/model.crema"});
  const std::string answer =
      Run("deploy", {"classify", "--model=job/service/job/1/model.crema", "train/c/3.png"});
  EXPECT_TRUE(answer.starts_with("train/c/3.png: c ")) << answer;
}

TEST_F(NewClassify, CsvGivesNamesOrNumbers) {
  AddClasses("p", 3, 4);
  std::string csv = "image,kind\n";
  std::string numbers;
  for (int i = 0; i < 4; ++i) {
    csv += StrCat("p/a/", i, ".png,\"dog, big\"\np/b/", i, ".png,cat\n");
    numbers += StrCat("p/a/", i, ".png,10\np/b/", i, ".png,9\np/c/", i, ".png,2\n");
  }
  Add("names.csv", "\xEF\xBB\xBF" + csv);
  Made({"--images=names.csv"});
  EXPECT_EQ(temp_.Read("job/labels.txt"), "cat\ndog, big\n");
  for (const std::string& line : LinesOf("job/train.txt")) {
    EXPECT_EQ(line.back(), line.starts_with("p/b/") ? '0' : '1') << line;
  }
  fs::remove_all(temp_.File("job"));
  Add("marked.csv", "\xEF\xBB\xBFp/a/0.png\n");
  ExpectRefused({"--images=marked.csv"}, "marked.csv:1:1: 'p/a/0.png' is not `path,class`", 3);
  Add("numbers.csv", numbers);
  Made({"--images=numbers.csv"});
  EXPECT_EQ(temp_.Read("job/labels.txt"), "2\n9\n10\n") << "numbers in their order";
}

TEST_F(NewClassify, AListTakesNamesFromLabelsTxt) {
  AddClasses("p", 2, 4);
  std::string list;
  for (int i = 0; i < 4; ++i) list += StrCat("p/a/", i, ".png 0\np/b/", i, ".png 1\n");
  Add("list.txt", list);
  Add("labels.txt", "left\nright\n");
  Made({"--images=list.txt"});
  EXPECT_EQ(temp_.Read("job/labels.txt"), "left\nright\n");
}

TEST_F(NewClassify, ALabelWithoutANameIsRefused) {
  AddClasses("p", 2, 4);
  std::string list;
  for (int i = 0; i < 4; ++i) list += StrCat("p/a/", i, ".png 0\np/b/", i, ".png 1\n");
  Add("labels.txt", "left\nright\n");
  for (const char* label : {"2", "-1"}) {
    Add("list.txt", StrCat(list, "p/a/0.png ", label, "\n"));
    ExpectRefused({"--images=list.txt"},
                  StrCat("list.txt:9:1: the label ", label, " has no name: labels.txt has 2 names"),
                  3);
  }
}

TEST_F(NewClassify, TwoClassesOfOneNameAreRefused) {
  AddClasses("p", 2, 4);
  std::string list;
  for (int i = 0; i < 4; ++i) list += StrCat("p/a/", i, ".png 0\np/b/", i, ".png 2\n");
  Add("list.txt", list);
  Add("labels.txt", "dog\ncat\ncat\n");
  ExpectRefused({"--images=list.txt"},
                "--images: two classes of 'list.txt' have the name 'cat', 1 and 2", 3);
}

TEST_F(NewClassify, TheSplitTakesOfEachClassAndDependsOnTheSeed) {
  AddClasses("train", 3, 10);
  const auto test_of = [&](const std::string& seed) {
    Made({"--images=train", "--split=0.2", seed});
    return LinesOf("job/test.txt");
  };
  const std::vector<std::string> first = test_of("--seed=1");
  ASSERT_EQ(first.size(), 6U);
  for (const char c : {'a', 'b', 'c'}) {
    EXPECT_EQ(std::ranges::count_if(first, [&](const std::string& line) { return line[0] == c; }),
              2);
  }
  const std::vector<std::string> train = LinesOf("job/train.txt");
  std::set<std::string> all(train.begin(), train.end());
  all.insert(first.begin(), first.end());
  EXPECT_EQ(all.size(), 30U) << "no picture is in both";
  EXPECT_EQ(test_of("--seed=1"), first);
  EXPECT_NE(test_of("--seed=2"), first);
}

TEST_F(NewClassify, WarnsOfAClassWithoutTestPictures) {
  AddClasses("train", 2, 6);
  AddPicture("train/rare/0.png", 99);
  EXPECT_TRUE(Contains(Made({"--images=train"}), "class 'rare' has no test pictures"));
}

TEST_F(NewClassify, TestPicturesOfTheirOwn) {
  AddClasses("train", 3, 5);
  AddClasses("test", 2, 3);
  Made({"--images=train/", "--test=test"});
  EXPECT_EQ(LinesOf("job/train.txt").size(), 15U);
  EXPECT_EQ(LinesOf("job/test.txt").size(), 6U);
  EXPECT_EQ(Net().layer(1).image_data_param().root_folder(), "test/");
  AddPicture("test/d/0.png", 1);
  ExpectRefusedAnew({"--images=train", "--test=test"},
                    "--test: the class 'd' is not among those of --images, which are a, b, c");
}

TEST_F(NewClassify, TheModelFitsThePictures) {
  AddClasses("colors", 2, 8);
  AddPicture("colors/a/9.png", 3, 12, 3);
  AddClasses("large", 2, 4);
  for (int i = 0; i < 5; ++i) AddPicture(StrCat("large/a/9", i, ".png"), 3, 100);
  EXPECT_TRUE(Contains(Made({"--images=colors"}), "The net is lenet")) << "a color file, but gray";
  Add("colors/b/x.png", Png(Pattern(12, 12)));
  EXPECT_TRUE(Contains(Made({"--images=colors"}), "The net is cifar10_quick, its input 32x32"));
  const std::string out = Made({"--images=large", "--size=32x64", "--nomirror"});
  EXPECT_TRUE(Contains(out, "The net is lenet, its input 32x64")) << out;
  for (int i = 5; i < 9; ++i) AddPicture(StrCat("large/a/9", i, ".png"), 3, 100);
  EXPECT_TRUE(Contains(Made({"--images=large", "--size=64"}), "The net is mobilenet_v2"));
  const NetParameter net = Net();
  const LayerParameter& data = net.layer(0);
  EXPECT_EQ(data.image_data_param().new_height(), 73U) << "64 * 256 / 224";
  EXPECT_EQ(data.transform_param().crop_h(), 64U);
  EXPECT_TRUE(data.transform_param().mirror());
  EXPECT_NEAR(data.transform_param().mean_value(0), 32, 31) << "of the pictures, not 103.9";
  EXPECT_FALSE(net.layer(1).transform_param().mirror());
  EXPECT_EQ(LayerOf(net, "fc10")->convolution_param().num_output(), 2U);
  EXPECT_EQ(LayerOf(net, "accuracy_top5"), nullptr) << "all classes are among the best five";
}

TEST_F(NewClassify, NetsOfTheZooTakeOtherSizesAndClasses) {
  AddClasses("colors", 2, 8, 3);
  for (const char* model :
       {"resnet18", "resnet50", "mobilenet_v1", "squeezenet_v1.1", "googlenet"}) {
    const std::string size = model == std::string("googlenet") ? "--size=224" : "--size=64";
    Made({"--images=colors", StrCat("--model=", model), size, "--batch=2"});
  }
}

TEST_F(NewClassify, WeightsOfOtherClassesFitButForTheLastLayer) {
  AddClasses("train", 3, 8);
  Made({"--images=train", "--epochs=1"});
  Run("train", {"--solver=job/solver.prototxt", "--threads=1"});
  fs::rename(temp_.File("job/runs/lenet_best.caffemodel"), temp_.File("w.caffemodel"));

  Made({"--images=train", "--weights=w.caffemodel"});
  const NetParameter same = Net();
  EXPECT_NE(LayerOf(same, "ip2"), nullptr) << "as many classes: the layer starts from the file";
  EXPECT_FLOAT_EQ(Solver().base_lr(), 3.1e-5F) << "0.01 of the model / 10 * 2 / 64";

  AddClasses("more", 4, 8);
  Made({"--images=more", "--weights=w.caffemodel"});
  const NetParameter other = Net();
  const LayerParameter* head = LayerOf(other, "ip2_new");
  ASSERT_NE(head, nullptr);
  EXPECT_FLOAT_EQ(head->param(0).lr_mult(), 10);
  const ProcessResult check = RunTool("check", {"--solver=job/solver.prototxt"}, temp_.path());
  EXPECT_EQ(check.exit_code, 0) << check.err;
  ExpectRefusedAnew({"--images=more", "--weights=none.caffemodel"}, "there is no such file");
}

TEST_F(NewClassify, UnreadablePicturesAreListed) {
  AddClasses("train", 2, 12);
  for (int i = 0; i < 7; ++i) Add(StrCat("train/b/", i, ".png"), "no picture");
  const ProcessResult refused = New({"--images=train"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_TRUE(Contains(refused.err, "7 pictures cannot be read:\n  'train/b/0.png'"))
      << refused.err;
  EXPECT_TRUE(Contains(refused.err, "train/b/4.png")) << refused.err;
  EXPECT_FALSE(Contains(refused.err, "train/b/5.png")) << refused.err;
  EXPECT_TRUE(Contains(refused.err, "and 2 more\n")) << refused.err;
  EXPECT_FALSE(fs::exists(temp_.File("job")));
  const std::string out = Made({"--images=train", "--on_bad=skip"});
  EXPECT_TRUE(Contains(out, "Found 17 pictures of 2 classes")) << out;
}

TEST_F(NewClassify, RefusesWhatCannotBecomeAJob) {
  AddClasses("one", 1, 4);
  ExpectRefused({"--images=one"}, "has one class only, 'a'");
  AddClasses("train", 2, 4);
  fs::create_directories(temp_.File("train/empty"));
  ExpectRefused({"--images=train"}, "train/empty' of class 2 holds no images", 3);
  fs::remove(temp_.File("train/empty"));
  ExpectRefused({"--images=trian"}, "--images: there is no folder or file 'trian'");
  AddClasses("sets/train", 2, 2);
  AddClasses("sets/val", 2, 2);
  ExpectRefused({"--images=sets"}, "give --images=sets/train --test=sets/val");
  AddPicture("flat/1.png", 1);
  Add("flat/notes.doc", "");
  ExpectRefused({"--images=flat"}, "found 1 .doc, 1 .png, expected one of\n  classify: ");
  ExpectRefused({"--images=train", "--task=detect"}, "holds no labelled pictures for detect");
  ExpectRefused({"--images=train", "--task=clasify"}, "(did you mean 'classify'?)");
  ExpectRefused({"--images=trian", "--task=clasify"}, "(did you mean 'classify'?)");
  ExpectRefused({"--images=trian", "--size=12y"}, "--size: '12y' is no size like");
  ExpectRefused({"--images=train", "--split=1"}, "--split is 1; use a share above 0 and below 1");
  ExpectRefused({"--images=train", "--split=0.2", "--test=one"}, "contradict each other");
  ExpectRefused({"--images=train", "--model=lennet"}, "there is no model 'lennet' (did you mean");
  ExpectRefused({"--images=train", "--model=ssd300"}, "'ssd300' is no net for classify; models");
  ExpectRefused({"--images=train", "--size=12y"}, "--size: '12y' is no size like 128 or 128x96");
  ExpectRefused({"--images=train", "--batch=-2"}, "--batch is -2, but must be 0 to 100000");
  ExpectRefused({}, "--images is required");
}

TEST_F(NewClassify, TakesAModelOfOnesOwnAndLeavesNoFolders) {
  AddClasses("train", 2, 4);
  fs::create_directories(temp_.File("nets"));
  fs::copy(CREMA_SOURCE_DIR "/models/lenet", temp_.File("nets/small"), fs::copy_options::recursive);
  EXPECT_TRUE(Contains(Made({"--images=train", "--model=nets/small/"}), "The net is small, "));
  EXPECT_EQ(Solver().snapshot_prefix(), "job/runs/small");
  const ProcessResult refused =
      RunTool("new", {"--images=train", "--model=nets/none", "-o=a/b/job"}, temp_.path());
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_FALSE(fs::exists(temp_.File("a")));
  const std::string readme = temp_.Read("job/README.md");
  EXPECT_TRUE(Contains(readme, "The net is nets/small with pictures of")) << readme;
  Made({"--images=train", "--model=lenet"});
  EXPECT_TRUE(temp_.Read("job/train_val.prototxt").starts_with("# The net of models/lenet for"));
}

TEST_F(NewClassify, AModelMirrorsAlsoWithoutCrops) {
  AddClasses("train", 2, 4);
  fs::create_directories(temp_.File("nets"));
  fs::copy(CREMA_SOURCE_DIR "/models/lenet", temp_.File("nets/small"), fs::copy_options::recursive);
  NetParameter net = ReadNet(temp_.File("nets/small/train_val.prototxt")).net;
  net.mutable_layer(0)->mutable_transform_param()->set_mirror(true);
  temp_.Write("nets/small/train_val.prototxt", PrintText(net));
  Made({"--images=train", "--model=nets/small"});
  EXPECT_TRUE(Net().layer(0).transform_param().mirror());
  EXPECT_FALSE(Net().layer(1).transform_param().mirror()) << "of the tests";
  Made({"--images=train", "--model=nets/small", "--nomirror"});
  EXPECT_FALSE(Net().layer(0).transform_param().mirror());
}

TEST_F(NewClassify, AStoppedCommandLeavesNothing) {
  for (int i = 0; i < 40; ++i) Add(StrCat("train/", i % 2, "/", i, ".png"), Png(SlowImage()));
  for (const int signal : {SIGINT, SIGTERM}) {
    const int code = StopInTheMiddle(
        temp_,
        {Bin("new"), "--images=" + temp_.File("train"), "--model=lenet", "-o", temp_.File("job")},
        temp_.File("job"), signal, [&] { return fs::exists(temp_.File("job")); });
    EXPECT_EQ(code, 128 + signal);
    EXPECT_FALSE(fs::exists(temp_.File("job")));
  }
}

TEST_F(NewClassify, AStoppedCommandLeavesTheJobsBesideIts) {
  for (int i = 0; i < 40; ++i) Add(StrCat("train/", i % 2, "/", i, ".png"), Png(SlowImage()));
  const int code = StopInTheMiddle(temp_,
                                   {Bin("new"), "--images=" + temp_.File("train"), "--model=lenet",
                                    "-o", temp_.File("jobs/new/a")},
                                   temp_.File("jobs"), SIGINT, [&] {
                                     if (!fs::exists(temp_.File("jobs/new/a"))) return false;
                                     Add("jobs/b/mine.txt", "mine");
                                     return true;
                                   });
  EXPECT_EQ(code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(temp_.File("jobs/new")));
  EXPECT_EQ(temp_.Read("jobs/b/mine.txt"), "mine");
}

TEST_F(NewClassify, OverwritesNothing) {
  AddClasses("train", 2, 4);
  Add("job/mine.txt", "mine");
  const ProcessResult result = New({"--images=train"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "'job' exists already")) << result.err;
  EXPECT_EQ(temp_.Read("job/mine.txt"), "mine");
}

}  // namespace
}  // namespace crema::test
#endif  // CREMA_HAVE_OPENCV
