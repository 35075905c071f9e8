// Recorded trainings of Caffe, by the library and by the command.
#pragma once

#include <filesystem>

namespace crema::test {

// Registers the tests of one recording with Google Test.
void RegisterTrajectory(const std::filesystem::path& folder);

}  // namespace crema::test
