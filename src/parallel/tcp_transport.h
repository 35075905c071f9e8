// Messages between processes over TCP, without MPI.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "parallel/tcp_meeting.h"
#include "parallel/transport.h"

namespace crema {

// Meets the other processes like MeetByTcp. A process whose connection is closed has ended, which
// is an error here at once; one that is stopped, or whose network is down, keeps its connections.
// The calls of the result throw Error. Messages are received in the size in which they were sent.
// Abort reaches the others at their next call, and returns. The traffic is neither authenticated
// nor encrypted.
std::unique_ptr<Transport> MakeTcpTransport(const TcpPlace& place, double timeout,
                                            const std::function<void(const std::string&)>& warn);

}  // namespace crema
