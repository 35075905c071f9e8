// Messages over TCP between ranks that are threads of this process, and strangers among them.
#include "parallel/tcp_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "parallel/process_ranks.h"
#include "support/error_text.h"
#include "support/free_port.h"

namespace crema::test {
namespace {

constexpr double kEnough = 60;  // seconds

void Ignore(const std::string&) {}

// The error of a rank.
struct Thrown {
  std::string text;
  ErrorCode code = ErrorCode::kInternal;
};

Thrown ThrownBy(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}

using Body = std::function<void(Transport&)>;

// Calls body in a thread for each place.
std::vector<Thrown> RunAt(const std::vector<TcpPlace>& places, const Body& body,
                          double timeout = kEnough) {
  std::vector<Thrown> thrown(places.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] {
      thrown[i] = ThrownBy([&] { body(*MakeTcpTransport(places[i], timeout, Ignore)); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

std::vector<TcpPlace> Places(int size, const std::string& address = "127.0.0.1") {
  const int port = FreePort();
  std::vector<TcpPlace> places;
  for (int rank = 0; rank < size; ++rank) places.push_back({rank, size, address, port});
  return places;
}

void ExpectNothingThrown(const std::vector<Thrown>& all) {
  for (const Thrown& one : all) EXPECT_EQ(one.text, "");
}

void Await(Transport& transport, std::vector<Transport::Transfer> all) {
  while (!all.empty()) {
    std::erase_if(all, [&](Transport::Transfer one) { return transport.IsDone(one); });
    std::this_thread::yield();
  }
}

std::vector<std::byte> Message(int from, int to, int channel, size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    message[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(from * 64 + to * 8 + channel));
  }
  return message;
}

// Each rank sends messages of many sizes on two channels to each, and receives the second channel
// first, so that those of the first arrive before they are asked for.
void ExchangeMessages(Transport& transport) {
  const std::vector<size_t> sizes = {0, 1, 100'000, 5'000'000, 3};
  std::vector<std::vector<std::byte>> sent;
  std::vector<Transport::Transfer> transfers;
  sent.reserve(1000);
  for (const size_t size : sizes) {
    for (const int channel : {1, 2}) {
      for (int to = 0; to < transport.size(); ++to) {
        if (to == transport.rank()) continue;
        sent.push_back(Message(transport.rank(), to, channel, size));
        transfers.push_back(transport.Send(sent.back(), to, channel));
      }
    }
  }
  for (const int channel : {2, 1}) {
    for (int from = 0; from < transport.size(); ++from) {
      if (from == transport.rank()) continue;
      std::vector<std::vector<std::byte>> received;
      std::vector<Transport::Transfer> pending;
      for (const size_t size : sizes) {
        received.emplace_back(size);
        pending.push_back(transport.Receive(received.back(), from, channel));
      }
      Await(transport, pending);
      for (size_t i = 0; i < sizes.size(); ++i) {
        CREMA_CHECK(received[i] == Message(from, transport.rank(), channel, sizes[i]));
      }
    }
  }
  Await(transport, transfers);
  transport.End();
}

// A connection of somebody who is not of the run.
class Stranger {
 public:
  explicit Stranger(int port, const std::string& bytes = "") {
    const sockaddr_in address = LoopbackAddress(port);
    for (;;) {  // until somebody listens
      socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const auto* const general = reinterpret_cast<const sockaddr*>(&address);
      if (::connect(socket_.get(), general, sizeof(address)) == 0) break;
      std::this_thread::yield();
    }
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void Reset() {
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    socket_ = Socket();
  }

 private:
  Socket socket_;
};

std::string HelloOf(int rank, int size, uint64_t run = 0) {
  std::string hello = "CREMA-H1";
  hello.append(reinterpret_cast<const char*>(&run), sizeof(run));
  for (const int number : {rank, size, 1, 0}) {
    hello.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return hello;
}

TEST(TcpTransport, CarriesMessagesOfAnySizeInOrder) {
  for (const int size : {2, 4}) ExpectNothingThrown(RunAt(Places(size), ExchangeMessages));
}

// The system holds less of a message: each rank must take from all while it sends.
TEST(TcpTransport, CarriesLargeSumsInAPassOfThreeRanks) {
  const auto thrown = RunAt(Places(3), [](Transport& transport) {
    auto ranks = ProcessRanks::Make(transport, {.timeout = 20});
    std::vector<double> values(4'000'000, 1.0);
    for (int round = 0; round < 3; ++round) ranks->collective().SumsInPass()->SumNow(values);
    CREMA_CHECK(values.front() == 27 && values.back() == 27);
    ranks.reset();
    transport.End();
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST(TcpTransport, MeetsByNamesAndAddressesOfBothVersions) {
  ExpectNothingThrown(RunAt(Places(3, "localhost"), ExchangeMessages));
  // Not seen to be of this host: listens on all networks.
  ExpectNothingThrown(RunAt(Places(3, "0x7f000001"), ExchangeMessages));
  const Socket six(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  if (::bind(six.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    ExpectNothingThrown(RunAt(Places(3, "::1"), ExchangeMessages));
  }
}

TEST(TcpTransport, OfOneRankConnectsNothing) {
  ExpectNothingThrown(RunAt({{.rank = 0, .size = 1}}, [](Transport& transport) {
    CREMA_CHECK(transport.size() == 1);
    transport.End();
  }));
}

// Another program listens at first.
TEST(TcpTransport, WaitsForAFirstRankThatComesLater) {
  TcpPlace place{.rank = 1, .size = 2, .address = "127.0.0.1"};
  Socket other(BindFreePort(&place.port));
  ASSERT_EQ(::listen(other.get(), 1), 0);
  std::thread second([&] { ExpectNothingThrown(RunAt({place}, ExchangeMessages)); });
  for (const char* answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    const Socket guest(::accept(other.get(), nullptr, nullptr));
    ::send(guest.get(), answer, std::string(answer).size(), MSG_NOSIGNAL);
  }
  other = Socket();
  place.rank = 0;
  ExpectNothingThrown(RunAt({place}, ExchangeMessages));
  second.join();
}

TEST(TcpTransport, MeetsAmongStrangers) {
  const std::vector<TcpPlace> places = Places(3);
  const int port = places[0].port;
  std::vector<std::string> warnings;
  std::thread first([&] {
    const Thrown thrown = ThrownBy([&] {
      ExchangeMessages(*MakeTcpTransport(places[0], kEnough, [&](const std::string& text) {
        if (Contains(text, "ignores")) warnings.push_back(text);
      }));
    });
    EXPECT_EQ(thrown.text, "");
  });
  std::vector<std::unique_ptr<Stranger>> strangers;
  const std::string request = "GET / HTTP/1.1\r\nHost: somewhere.example\r\nAccept: */*\r\n\r\n";
  for (const std::string& bytes :
       {request, std::string("x"), std::string(100'000, '\xff'), std::string(32, '\0'),
        HelloOf(1, 3, 12345), HelloOf(1, 3).substr(0, 31), HelloOf(1, 99).substr(0, 8),
        // No rank has such places.
        HelloOf(3, 3), HelloOf(-1, 3), HelloOf(0, 3), HelloOf(1, 1), HelloOf(1, 1'000'000)}) {
    strangers.push_back(std::make_unique<Stranger>(port, bytes));
  }
  for (int i = 0; i < 100; ++i) strangers.push_back(std::make_unique<Stranger>(port));
  { const Stranger leaves(port); }
  Stranger(port, "y").Reset();
  ExpectNothingThrown(RunAt({places[1], places[2]}, ExchangeMessages));
  first.join();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(Contains(warnings[0], "ignores a connection from 127.0.0.1")) << warnings[0];
  EXPECT_TRUE(std::ranges::all_of(warnings[0], [](char c) { return c >= ' ' && c <= '~'; }))
      << warnings[0];
}

// A program that has learnt the protocol, or a rank of another version.
TEST(TcpTransport, NamesARankThatSendsOtherBytesThanCrema) {
  const auto message = [](uint64_t bytes, int64_t channel, const std::string& text) {
    std::string all(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    all.append(reinterpret_cast<const char*>(&channel), sizeof(channel));
    return all + text;
  };
  const std::string no_message = "rank 1 at 127.0.0.1 sends no messages of Crema";
  const std::string no_note = "rank 1 sends no messages of this version of Crema";
  for (const auto& [bytes, expected] :
       {std::pair{std::string(64, 'x'), no_message},
        {message(3, 1234, "xyz"), no_message},
        {message(3, -7, "xyz"), no_message},
        {message(3, 1, "xyz"), no_note},
        {message(12, 1, std::string(12, '\0')), no_note},  // an error without a text
        {message(77, -2, ""), "rank 1 at 127.0.0.1 has ended the run"}}) {
    const std::vector<TcpPlace> places = Places(2);
    Thrown thrown;
    std::thread first([&, &text = expected] {
      thrown = RunAt({places[0]}, [](Transport& transport) {
        ProcessRanks::Make(transport, {.timeout = 20});
      })[0];
      EXPECT_TRUE(Contains(thrown.text, text)) << thrown.text;
    });
    const Stranger second(places[0].port, HelloOf(1, 2) + bytes);
    first.join();
    EXPECT_EQ(thrown.code, ErrorCode::kDeviceFailure);
  }
}

TEST(TcpTransport, ShowsNoControlCharactersOfARefusal) {
  TcpPlace place{.rank = 1, .size = 2, .address = "127.0.0.1"};
  const Socket other(BindFreePort(&place.port));
  ASSERT_EQ(::listen(other.get(), 1), 0);
  Thrown thrown;
  std::thread second([&] { thrown = RunAt({place}, ExchangeMessages)[0]; });
  const Socket guest(::accept(other.get(), nullptr, nullptr));
  std::string answer = "CREMA-A1" + std::string(8, '\0') + std::string(4, '\x7f') + "no\x1b[2J\nno";
  answer.resize(8 + 8 + 4 + 252);
  ::send(guest.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  second.join();
  EXPECT_EQ(thrown.code, ErrorCode::kDeviceFailure);
  EXPECT_TRUE(Contains(thrown.text, R"(has ended the run: no\x1b[2J\x0ano)")) << thrown.text;
}

TEST(TcpTransport, MeetsARankThatIsStartedAnew) {
  const std::vector<TcpPlace> places = Places(3);
  std::thread first([&] { ExpectNothingThrown(RunAt({places[0]}, ExchangeMessages)); });
  { const Stranger died(places[0].port, HelloOf(1, 3)); }
  ExpectNothingThrown(RunAt({places[1], places[2]}, ExchangeMessages));
  first.join();
}

TEST(TcpTransport, RefusesPlacesThatContradict) {
  std::vector<TcpPlace> places = Places(2);
  places[1].size = 3;
  for (const Thrown& one : RunAt(places, ExchangeMessages)) {
    EXPECT_EQ(one.code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(Contains(one.text, "rank 1 at 127.0.0.1 has WORLD_SIZE 3, and rank 0 has 2"))
        << one.text;
  }
  places = Places(3);
  places[2].rank = 1;
  for (const Thrown& one : RunAt(places, ExchangeMessages)) {
    EXPECT_EQ(one.code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(Contains(one.text, "two processes have RANK 1")) << one.text;
  }
}

TEST(TcpTransport, NamesThePortThatIsTaken) {
  TcpPlace place{.rank = 0, .size = 2, .address = "127.0.0.1"};
  const Socket other(BindFreePort(&place.port));
  ASSERT_EQ(::listen(other.get(), 1), 0);
  const Thrown thrown = RunAt({place}, ExchangeMessages)[0];
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Contains(thrown.text, StrCat("cannot listen at port ", place.port))) << thrown.text;
  EXPECT_TRUE(Contains(thrown.text, "give all ranks another MASTER_PORT")) << thrown.text;
}

TEST(TcpTransport, NamesThoseThatDoNotCome) {
  std::vector<TcpPlace> places = Places(4);
  Thrown second;
  std::thread waits([&] { second = RunAt({places[2]}, ExchangeMessages)[0]; });
  const Thrown first = RunAt({places[0]}, ExchangeMessages, 1)[0];
  waits.join();
  for (const Thrown& one : {first, second}) {
    EXPECT_EQ(one.code, ErrorCode::kDeviceFailure);
    EXPECT_TRUE(Contains(one.text, "has waited 1 seconds for ranks 1, 3 at port ")) << one.text;
  }
  const std::string alone = RunAt({places[1]}, ExchangeMessages, 1)[0].text;
  EXPECT_TRUE(Contains(alone, StrCat("rank 1 has waited 1 seconds for rank 0 at 127.0.0.1, port ",
                                     places[0].port, " (Connection refused)")))
      << alone;
  places[1].address = "nowhere.invalid";
  const std::string nowhere = RunAt({places[1]}, ExchangeMessages, 1)[0].text;
  EXPECT_TRUE(Contains(nowhere, "rank 0 at nowhere.invalid")) << nowhere;
}

TEST(TcpTransport, FailsOnceAnotherRankHasGone) {
  const auto thrown = RunAt(Places(3), [](Transport& transport) {
    if (transport.rank() == 1) return;
    std::vector<std::byte> bytes(4);
    Await(transport, {transport.Receive(bytes, 1, 1)});
  });
  EXPECT_EQ(thrown[1].text, "");
  for (const size_t rank : {0U, 2U}) {
    EXPECT_EQ(thrown[rank].code, ErrorCode::kDeviceFailure);
    EXPECT_TRUE(Contains(thrown[rank].text, "rank 1 at 127.0.0.1 has ended")) << thrown[rank].text;
  }
}

TEST(TcpTransport, EndsAllWithTheCodeOfTheOneThatAborts) {
  const auto thrown = RunAt(Places(3), [](Transport& transport) {
    if (transport.rank() == 1) return transport.Abort(ExitCode(ErrorCode::kDiverged));
    while (!transport.Arrived(1, 1)) std::this_thread::yield();
  });
  for (const size_t rank : {0U, 2U}) {
    EXPECT_EQ(thrown[rank].code, ErrorCode::kDiverged);
    EXPECT_TRUE(Contains(thrown[rank].text, "rank 1 at 127.0.0.1 has ended the run"))
        << thrown[rank].text;
  }
}

TEST(TcpTransport, EndWaitsForAll) {
  std::atomic<bool> is_last_ready = false;
  ExpectNothingThrown(RunAt(Places(3), [&](Transport& transport) {
    const std::vector<std::byte> sent(1'000'000);
    if (transport.rank() == 2) {
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      is_last_ready = true;
      std::vector<std::byte> bytes(sent.size());
      Await(transport, {transport.Receive(bytes, 0, 1)});
    } else if (transport.rank() == 0) {
      transport.Send(sent, 2, 1);
    }
    transport.End();
    CREMA_CHECK(is_last_ready);
  }));
}

TEST(TcpTransport, RefusesMessagesOfAnotherSize) {
  for (const bool asks_first : {true, false}) {
    const auto thrown = RunAt(Places(2), [&](Transport& transport) {
      std::vector<std::byte> bytes(8);
      if (transport.rank() == 0) {
        Await(transport, {transport.Send(bytes, 1, 1)});
        while (!transport.Arrived(1, 2)) std::this_thread::yield();
      }
      if (!asks_first) {
        while (!transport.Arrived(0, 1)) std::this_thread::yield();
      }
      Await(transport, {transport.Receive(std::span(bytes).first(4), 0, 1)});
    });
    EXPECT_TRUE(Contains(thrown[1].text, "has sent 8 bytes where this rank expects 4"))
        << thrown[1].text;
  }
}

// Sets variables, or removes them for a null pointer, while it exists.
class Environment {
 public:
  explicit Environment(const std::map<std::string, const char*>& variables) {
    for (const auto& [name, value] : variables) {
      const char* const before = std::getenv(name.c_str());
      before_.emplace_back(name, before == nullptr ? "" : before);
      Set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) Set(name, value.empty() ? nullptr : value.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void Set(const std::string& name, const char* value) {
    if (value == nullptr) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value, 1);
    }
  }
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST(TcpPlace, IsThatOfTheEnvironment) {
  std::map<std::string, const char*> variables = {
      {"RANK", "1"},           {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"},
      {"PMI_SIZE", nullptr},   {"OMPI_COMM_WORLD_SIZE", nullptr},
      {"PMIX_RANK", nullptr},  {"TORCHELASTIC_USE_AGENT_STORE", nullptr}};
  {
    const Environment environment(variables);
    const TcpPlace place = TcpPlaceOfEnvironment();
    EXPECT_EQ(place.rank, 1);
    EXPECT_EQ(place.size, 2);
    EXPECT_EQ(place.address, "host");
    EXPECT_EQ(place.port, 29500);
    EXPECT_EQ(TransportOfLauncher(), "tcp");
  }
  {
    const Environment mpirun({{"OMPI_COMM_WORLD_SIZE", "2"}, {"WORLD_SIZE", "2"}});
    EXPECT_EQ(TransportOfLauncher(), "openmpi");
  }
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // torchrun's agent has MASTER_PORT
  {
    const Environment environment(variables);
    EXPECT_EQ(TcpPlaceOfEnvironment().port, 29501);
  }
  variables["WORLD_SIZE"] = "1";
  const Environment environment(variables);
  EXPECT_EQ(TransportOfLauncher(), "");
}

TEST(TcpPlace, NamesTheVariableThatIsWrong) {
  const std::vector<std::tuple<const char*, const char*, const char*>> mistakes = {
      {"RANK", nullptr, "the environment has no RANK"},
      {"RANK", "2", "RANK is '2' in the environment; give 0 to 1"},
      {"RANK", "-1", "RANK is '-1'"},
      {"WORLD_SIZE", "two", "WORLD_SIZE is 'two'"},
      {"WORLD_SIZE", "1000000000", "WORLD_SIZE is '1000000000'"},
      {"MASTER_PORT", nullptr, "the environment has no MASTER_PORT"},
      {"MASTER_PORT", "tcp://10.0.0.1:29500", "MASTER_PORT is 'tcp://10.0.0.1:29500'"},
      {"MASTER_PORT", "65536", "give 1 to 65535"},
      {"MASTER_PORT", "", "MASTER_PORT is ''"},
      {"MASTER_ADDR", nullptr, "MASTER_ADDR is not set"}};
  for (const auto& [name, value, message] : mistakes) {
    std::map<std::string, const char*> variables = {
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}};
    variables[name] = value;
    const Environment environment(variables);
    const Thrown thrown = ThrownBy([] { TcpPlaceOfEnvironment(); });
    EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument) << name;
    EXPECT_TRUE(Contains(thrown.text, message)) << thrown.text;
  }
}

}  // namespace
}  // namespace crema::test
