// Requests that every server must refuse.
#pragma once

#include <string>
#include <vector>

namespace crema::test {

struct BadRequest {
  std::string name;   // the fault
  std::string bytes;  // all that is sent
  int status = 400;
};

// Sends to a server with the model `m` of fake_model.h, without tokens, with a body limit of 1 MiB.
std::vector<BadRequest> BadRequests();

}  // namespace crema::test
