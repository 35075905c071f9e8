// File permissions do not bind root, so a test that needs them gives root up for a while.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace crema::testing {

class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (root_ && seteuid(kNobody) != 0) ADD_FAILURE() << "cannot give root up";
  }
  ~AsOrdinaryUser() {
    if (root_ && seteuid(0) != 0) ADD_FAILURE() << "cannot become root again";
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool root_ = geteuid() == 0;
};

}  // namespace crema::testing
