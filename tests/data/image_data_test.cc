#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/lists/image_list.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

namespace {

using test::TempDir;
using test::TestRegistry;
using testing::Encode;
using testing::ExpectError;
using testing::Flat;
using testing::LayerRunner;
using testing::Pattern;

std::string PetsLayer(const std::string& source, const std::string& more = "batch_size: 2",
                      const std::string& transform = "", int tops = 2) {
  return StrCat("name: 'pets' type: 'ImageData' top: 'data' ", tops > 1 ? "top: 'label' " : "",
                "image_data_param { source: '", source, "' ", more, " } transform_param { ",
                transform, " }");
}

// `count` flat images of 4 x 5 whose value and label are their number.
std::string WriteImageList(const TempDir& temp, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    const std::string path = temp.Write(StrCat("an image ", i, ".png"), Encode(Flat(4, 5, i)));
    list += StrCat(path, " ", i, "\n");
  }
  return temp.Write("list.txt", list);
}

TEST(ImageList, SplitsAtTheLastSpaceAndSkipsEmptyLines) {
  TempDir temp;
  const ImageList list(temp.Write("list", "a b.jpg 3\r\n\n  \nc.png -1"), "root/");
  ASSERT_EQ(list.entries().size(), 2u);
  EXPECT_EQ(list.entries()[0].path, "root/a b.jpg");
  EXPECT_EQ(list.entries()[0].label, 3);
  EXPECT_EQ(list.entries()[1].path, "root/c.png");
  EXPECT_EQ(list.entries()[1].label, -1);
  EXPECT_EQ(list.Name(list.entries()[1]), "'root/c.png' (line 4 of '" + temp.File("list") + "')");
}

TEST(ImageList, ErrorsNameFileAndLine) {
  TempDir temp;
  const auto expect = [&](const std::string& text, const std::string& message) {
    const std::string path = temp.Write("list", text);
    ExpectError(ErrorCode::kDataLoss, message, [&] { ImageList(path, ""); });
  };
  expect("", "list: lists no images");
  expect("\n \n", "lists no images");
  expect("a.jpg 1\nb.jpg\n", "list:2:1: 'b.jpg' is not `path label`");
  expect("a.jpg cat\n", "list:1:1: the label 'cat' after 'a.jpg' is not a whole number");
  expect("a.jpg 1.5\n", "the label '1.5'");
  expect("a.jpg 99999999999\n", "the label '99999999999'");
  ExpectError(ErrorCode::kNotFound, "nothing.txt",
              [&] { ImageList(temp.File("nothing.txt"), ""); });
}

TEST(ImageDataLayer, BatchesFollowTheListAndWrap) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, PetsLayer(WriteImageList(temp, 3)));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(runner.Collect(1, 3), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(runner.outputs[0].view().data<float>()[0], 1);
  EXPECT_EQ(runner.outputs[0].view().data<float>()[60], 2);
  EXPECT_EQ(runner.state().EpochSize(), 3);
}

TEST(ImageDataLayer, ChannelsAreBlueGreenRedOrGrey) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  temp.Write("a.png", Encode(Pattern(2, 3, 3)));
  const std::string list = temp.Write("list", "a.png 7");
  const std::string root = StrCat("root_folder: '", temp.path(), "/' ");
  LayerRunner colour(registry, PetsLayer(list, root, "", 1));
  EXPECT_EQ(colour.Collect(0, 1), (std::vector<float>{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111,
                                                      112, 200, 201, 202, 210, 211, 212}));
  LayerRunner grey(registry, PetsLayer(list, root + "is_color: false", "scale: 0.5"), TRAIN,
                   DType::kF64);
  EXPECT_EQ(grey.outputs[0].shape(), (Shape{1, 1, 2, 3}));
  grey.Forward();
  EXPECT_NEAR(grey.outputs[0].view().data<double>()[0], 0.5 * (0.587 * 100 + 0.299 * 200), 0.5);
}

TEST(ImageDataLayer, ResizesBeforeCropping) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string a = temp.Write("a.png", Encode(Flat(4, 8, 10)));
  const std::string b = temp.Write("b.png", Encode(Flat(9, 3, 20)));
  const std::string list = temp.Write("list", a + " 0\n" + b + " 1\n");
  LayerRunner fixed(registry, PetsLayer(list, "batch_size: 2 new_height: 6 new_width: 7"));
  EXPECT_EQ(fixed.outputs[0].shape(), (Shape{2, 3, 6, 7}));
  fixed.Forward();
  EXPECT_EQ(fixed.outputs[0].view().data<float>()[0], 10);
  EXPECT_EQ(fixed.outputs[0].view().data<float>()[3 * 42], 20);
  LayerRunner shorter(registry,
                      PetsLayer(list, "batch_size: 2 short_side: 6", "crop_h: 6 crop_w: 5"));
  EXPECT_EQ(shorter.outputs[0].shape(), (Shape{2, 3, 6, 5}));
  shorter.Forward();
  LayerRunner plain(registry, PetsLayer(list, "batch_size: 2"));
  ExpectError(ErrorCode::kDataLoss, "b.png' (line 2 of", [&] { plain.Forward(); });
  ExpectError(ErrorCode::kDataLoss, "is 3x9x3, but the first record is 3x4x8",
              [&] { plain.Forward(); });
}

TEST(ImageDataLayer, ShuffledEpochsHoldEachImageOnceAndResume) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text =
      PetsLayer(WriteImageList(temp, 9), "batch_size: 3 shuffle: true cache: true");
  LayerRunner runner(registry, text);
  const std::vector<float> first = runner.Collect(1, 3);
  const std::vector<float> second = runner.Collect(1, 3);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 9u);
  EXPECT_EQ(std::set<float>(second.begin(), second.end()).size(), 9u);
  EXPECT_NE(first, second);
  LayerState saved;
  runner.state().Save(&saved);
  EXPECT_EQ(saved.position(), 18u);
  EXPECT_EQ(saved.epoch(), 2u);
  const std::vector<float> expected = runner.Collect(1, 6);
  LayerRunner resumed(registry, text);
  resumed.state().Restore(saved);
  EXPECT_EQ(resumed.Collect(1, 6), expected);
}

TEST(ImageDataLayer, SamplesAreNamedByTheirPath) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, PetsLayer(WriteImageList(temp, 9), "batch_size: 3 shuffle: true"));
  EXPECT_EQ(runner.state().SampleName(0), "");
  for (int batch = 0; batch < 20; ++batch) {
    const std::vector<float> labels = runner.Collect(1, 1);
    for (size_t i = 0; i < labels.size(); ++i) {
      ASSERT_EQ(runner.state().SampleName(static_cast<int64_t>(i)),
                temp.File(StrCat("an image ", labels[i], ".png")));
    }
  }
  EXPECT_EQ(runner.state().SampleName(3), "");
  EXPECT_EQ(runner.state().SampleName(-1), "");
}

TEST(ImageDataLayer, BrokenImagesNameFileAndLine) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string good = temp.Write("good.png", Encode(Flat(4, 5, 1)));
  const std::string text = temp.Write("text.png", "no image");
  const std::string cut = temp.Write("cut.png", Encode(Flat(4, 5, 1)).substr(0, 40));
  const auto expect = [&](const std::string& path, ErrorCode code, const std::string& message) {
    const std::string list = temp.Write("list", good + " 0\n" + path + " 1\n");
    LayerRunner runner(registry, PetsLayer(list, "batch_size: 1"));
    runner.Forward();
    ExpectError(code, "layer \"pets\"", [&] { runner.Forward(); });
    ExpectError(code, message, [&] { runner.Forward(); });
    ExpectError(code, "(line 2 of '" + list + "')", [&] { runner.Forward(); });
  };
  expect(temp.File("none.png"), ErrorCode::kNotFound, "none.png");
  expect(text, ErrorCode::kDataLoss, "text.png");
  expect(cut, ErrorCode::kDataLoss, "truncated");
}

TEST(ImageDataLayer, ErrorsOfPlanningNameFileAndNet) {
  TempDir temp;
  const auto plan = [&](const std::string& list) {
    return test::PlanError(
        "layer { name: 'd' type: 'ImageData' top: 'data'\n"
        "image_data_param { source: '" +
        list + "' } }");
  };
  const std::string list = temp.Write("list", "\nnone.png cat\n");
  EXPECT_NE(plan(list).find("net.prototxt:2:20: layer \"d\": '" + list + ":2' the label 'cat'"),
            std::string::npos)
      << plan(list);
  temp.Write("list", "none.png 1\n");
  EXPECT_NE(plan(list).find("'none.png' there is no such file"), std::string::npos) << plan(list);
  EXPECT_NE(plan(list).find("(line 1 of '" + list + "')"), std::string::npos) << plan(list);
}

TEST(ImageDataLayer, OldFieldsOfTheSecondFormatAreRead) {
  TempDir temp;
  const std::string list = WriteImageList(temp, 3);
  const auto plan = test::PlanText(StrCat(
      "layers { name: 'd' type: IMAGE_DATA top: 'data' top: 'label' image_data_param { source: '",
      list, "' batch_size: 3 scale: 0.5 crop_size: 2 mirror: true } }"));
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->FindValue("data"))].spec.shape,
            (Shape{3, 3, 2, 2}));
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.Forward();
  EXPECT_EQ(session.Data("data").data<float>()[24], 1);
  EXPECT_NE(test::PlanWarnings(StrCat("layer { name: 'd' type: 'ImageData' top: 'data' "
                                      "image_data_param { source: '",
                                      list, "' scale: 0.5 } }"))
                .find("'image_data_param.scale' has no effect"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
#endif
