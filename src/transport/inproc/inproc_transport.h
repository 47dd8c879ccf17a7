// Ranks as threads of one process: each has its own transport and loop from one InprocNetwork. Frames pass through bounded memory
// as bytes, with the same checks as over tcp/, so what a test injects here is found by the code that finds it there.
//
// Addresses are any name and number; port 0 when listening = the network chooses. connect() succeeds or fails at once (its callback
// still comes from the loop).
#pragma once

#include <memory>

#include "transport/transport.h"

namespace paceline::transport {

class InprocNetwork {
 public:
  InprocNetwork();
  ~InprocNetwork();  // transports made here may outlive it
  InprocNetwork(const InprocNetwork&) = delete;
  InprocNetwork& operator=(const InprocNetwork&) = delete;

  // Any thread. The transport is destroyed while its loop does not run; connections that are still held then are closed, without
  // a callback.
  std::unique_ptr<Transport> make_transport();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace paceline::transport
