#include "session/doorbell.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "session/endpoint_state.h"

namespace paceline::session {
namespace {

// A process that is ending may close its connections before its door.
constexpr Duration kAgain = std::chrono::milliseconds(20), kLongestAgain = std::chrono::seconds(1);

}  // namespace

std::uint16_t Doorbell::own_door(const transport::Connection& connection) {
  const std::string host = connection.ends().local.host;
  if (host.empty()) return 0;
  if (const std::uint16_t port = state_.port_at(host); port != 0) return port;
  auto& door = doors_[host];
  if (door == nullptr) {
    auto opened = common_.transport.listen({host, 0}, {.plane = plane_of(common_.options.self)},
                                           [](const std::unique_ptr<transport::Connection>&) {});
    if (!opened.ok()) {
      log::debug("no door at {}: {}", host, opened.status().message());
      return 0;
    }
    door = std::move(opened).value();
  }
  return door->address().port;
}

void Doorbell::meet(Peer& peer, const transport::Connection& connection, std::uint16_t port) {
  peer.rings = 0;
  if (peer.process == nullptr && connection.ends().process != nullptr) ++common_.counters.doors;
  if (peer.process == nullptr) peer.process = connection.ends().process;
  const auto from = transport::parse_address(peer.address_text);
  if (port == 0 || !from.ok()) return;
  const transport::Address door{from->host, port};
  if (peer.door == door) return;
  peer.door = door;
  peer.door_opens = false;
  knock(peer, &Doorbell::on_tried);
}

void Doorbell::on_tried(Peer& peer, const Status& answer) {
  peer.door_opens = answer.ok();
  if (peer.door_opens) ++common_.counters.doors;
  if (peer.door_opens && peer.stage == Stage::kDown) ring(peer);  // it went meanwhile
}

void Doorbell::ring(Peer& peer) {
  if (peer.stage != Stage::kDown || peer.ringing) return;
  if (peer.process != nullptr) return peer.process->ended() ? state_.end_gone(peer) : ring_again(peer);
  if (!peer.door_opens) return;
  peer.ringing = true;
  knock(peer, &Doorbell::on_rung);
}

void Doorbell::on_rung(Peer& peer, const Status& answer) {
  peer.ringing = false;
  if (peer.stage != Stage::kDown) return;
  if (answer.code() == transport::kRefused) return state_.end_gone(peer);
  ring_again(peer);
}

void Doorbell::ring_again(Peer& peer) {
  constexpr std::uint32_t kMostDoublings = 10;
  const Duration pause = std::min(kLongestAgain, kAgain * (1 << std::min(peer.rings++, kMostDoublings)));
  peer.ringing = true;
  common_.transport.loop().run_after(pause, [this, id = peer.id, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    Peer* const down = common_.find(id);
    if (down == nullptr) return;
    down->ringing = false;
    ring(*down);
  });
}

void Doorbell::knock(const Peer& peer, void (Doorbell::*answer)(Peer&, const Status&)) {
  common_.transport.connect(peer.door, {common_.options.silence_deadline / 2, plane_of(peer.name)},
                            [this, id = peer.id, answer,
                             alive = std::weak_ptr(alive_)](const Result<std::unique_ptr<transport::Connection>>& connection) {
                              if (alive.expired()) return;
                              if (Peer* const asked = common_.find(id)) (this->*answer)(*asked, connection.status());
                            });
}

}  // namespace paceline::session
