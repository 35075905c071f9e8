// Requests that no server should answer with anything but a refusal.
#pragma once

#include <string>
#include <vector>

namespace crema::test {

struct BadRequest {
  std::string name;   // what is wrong
  std::string bytes;  // all that is sent
  int status = 400;
};

// For a server with the model `m` of fake_model.h, without tokens, whose body limit is 1 MiB.
std::vector<BadRequest> BadRequests();

}  // namespace crema::test
