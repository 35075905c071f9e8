// The pass of docs/development/add_a_pass.md does what the page says.
#include "examples/drop_identities.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::ExpectSameNet;
using test::GraphOf;

constexpr const char* kData =
    "layer { name: \"data\" type: \"Input\" top: \"data\" input_param { shape { dim: 2 dim: 3 } } "
    "}\n";

TEST(DropIdentities, RemovesPowerWithoutEffect) {
  Graph graph = GraphOf(std::string(kData) +
                        "layer { name: \"p\" type: \"Power\" bottom: \"data\" top: \"p\" }\n"
                        "layer { name: \"t\" type: \"TanH\" bottom: \"p\" top: \"t\" }\n");
  DropIdentities({}, &graph);
  ExpectSameNet(graph, std::string(kData) +
                           "layer { name: \"t\" type: \"TanH\" bottom: \"data\" top: \"t\" }\n");
}

TEST(DropIdentities, LeavesOthersAlone) {
  const std::string head =
      std::string(kData) + "layer { name: \"p\" type: \"Power\" bottom: \"data\" top: \"p\"";
  const std::string tail = "layer { name: \"t\" type: \"TanH\" bottom: \"p\" top: \"t\" }\n";
  for (const std::string& text :
       {head + " power_param { scale: 2 } }\n" + tail, head + " precision: BF16 }\n" + tail,
        head + " loss_weight: 1 }\n" + tail, head + " }\n"}) {
    Graph graph = GraphOf(text);
    DropIdentities({}, &graph);
    ExpectSameNet(graph, text);
  }
  Graph graph = GraphOf(head + " }\n" + tail);
  DropIdentities({{"p", "native"}}, &graph);
  ExpectSameNet(graph, head + " }\n" + tail);
}

}  // namespace
}  // namespace crema
