// What the tests of sessions share: names of peers, options with small chunks, the transports they run over.
#pragma once

#include "session_node.h"

namespace paceline::session::testing {

using namespace std::chrono_literals;
using transport::testing::MakeBackend;

inline const wire::PeerName kServer{wire::Role::kServer, {0}};
inline const wire::PeerName kWorker1{wire::Role::kWorker, {1}};
inline const wire::PeerName kWorker2{wire::Role::kWorker, {2}};

inline EndpointOptions named(const wire::PeerName& self, Duration deadline = 10s) {
  return {.self = self,
          .job = 7,
          .epoch = 2,
          .seed = static_cast<std::uint64_t>(self.rank.value),
          .silence_deadline = deadline,
          .chunk = {1024},
          .window = {4096}};
}

inline wire::MessageHead head(std::uint32_t unit, int layer = 0) {
  return {.kind = wire::MessageKind::kPush, .layer = {layer}, .unit = unit};
}

class SessionTest : public LeakCheck, public ::testing::WithParamInterface<MakeBackend> {
 protected:
  SessionTest() : backend_(GetParam()()) {}
  Backend backend_;
};

}  // namespace paceline::session::testing
