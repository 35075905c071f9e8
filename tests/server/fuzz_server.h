// What strangers send to a server, for libFuzzer and for a test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::test {

// Each returns the text of the RequestError that the bytes end with, empty when they are accepted.
// Any other exception passes through: it is a bug.
// The head of an HTTP request.
std::string TryHttpHead(std::string_view bytes);
// A body that comes in chunks.
std::string TryHttpBody(std::string_view bytes);
// The body of a request for inference behind two bytes that say how long its JSON part is, little
// end first; 65535: all of it.
std::string TryInfer(std::string_view bytes);

// Bytes to begin with, good and bad, for the target "httphead", "httpbody" or "infer".
std::vector<std::string> ServerCorpus(const std::string& target);

}  // namespace crema::test
