// Opens state dicts, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "format/state_dict.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {

// Returns the code of the error with which opening a file of these bytes, or reading its entries,
// ends; expects that its message has `part`.
inline ErrorCode StateDictError(const std::string& bytes, const std::string& part,
                                const std::string& key = "") {
  const TempDir temp;
  const std::string path = temp.Write("m.pth", bytes);
  try {
    const std::unique_ptr<StateDict> file = OpenStateDict(path, key);
    for (size_t i = 0; i < file->entries().size(); ++i) file->Read(i);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << "\nis not in\n"
                                                                       << error.what();
    EXPECT_NE(std::string(error.what()).find("m.pth"), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "was read, without '" << part << "'";
  return ErrorCode::kInternal;
}

// Entry `i` of a file of these bytes.
inline std::vector<float> StateValues(const std::string& bytes, size_t i = 0,
                                      const std::string& key = "") {
  const TempDir temp;
  return ValuesOf(OpenStateDict(temp.Write("m.pth", bytes), key)->Read(i).view());
}

}  // namespace crema::test
