// A model file and a picture, made by make_test_model.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/temp_dir.h"

namespace crema::api_test {

// Returns the path of a program of the build.
std::string PathOf(const std::string& program);

class WithModel : public testing::Test {
 protected:
  void SetUp() override {
    const std::string command = PathOf("make_test_model") + " " + model() + " " + detector() + " " +
                                segmenter() + " " + picture() + " " + regions_net() + " " +
                                regions_weights() + " " + folder_.path();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  std::string model() const { return folder_.File("m.crema"); }
  std::string detector() const { return folder_.File("d.crema"); }
  std::string segmenter() const { return folder_.File("s.crema"); }
  std::string regions_net() const { return folder_.File("r.prototxt"); }
  std::string regions_weights() const { return folder_.File("r.caffemodel"); }
  std::string picture() const { return folder_.File("p.ppm"); }
  // The net of model() in other forms.
  std::string onnx() const { return folder_.File("m.onnx"); }
  std::string net() const { return folder_.File("m.prototxt"); }
  std::string weights() const {
    return folder_.File("conv1.caffemodel") + "," + folder_.File("ip.caffemodel");
  }
  // Finds one box, with a score of 0.95, and none below 0.9.
  std::string confident() const { return folder_.File("c.crema"); }
  std::string cascade() const { return folder_.File("cascade.txt"); }
  // Returns the file that SquarePicture writes.
  std::string square() const { return folder_.File("square.ppm"); }
  std::string BytesOf(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& bytes) const {
    folder_.Write(name, bytes);
  }
  void Remove(const std::string& name) const { std::filesystem::remove(folder_.File(name)); }
  // Returns the output of an example.
  std::string OutputOf(const std::string& example, const std::string& arguments) const {
    const std::string out = folder_.File("out");
    const std::string command = CommandOf(example, arguments + " > " + out);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return BytesOf(out);
  }
  int ExitCodeOf(const std::string& example, const std::string& arguments) const {
    const int status = std::system((CommandOf(example, arguments) + " 2> /dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static std::string CommandOf(const std::string& example, const std::string& arguments) {
    return PathOf("example_" + example) + " " + arguments;
  }

  test::TempDir folder_;
};

}  // namespace crema::api_test
