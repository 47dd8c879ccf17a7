// Numbers that nobody can guess, and the proof that somebody knows a secret without telling it: HMAC-SHA256 (RFC 2104) over what
// both sides have seen. Errors: none; a system without random numbers or SHA-256 ends the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace paceline {

using Secret = std::array<std::byte, 32>;  // all zero: none
using Nonce = std::array<std::byte, 16>;   // a number that is used once; all zero: none
using Proof = std::array<std::byte, 32>;   // all zero: none

inline constexpr Secret kNoSecret{};

// From the system's source of random numbers; never all zero.
Secret draw_secret();
void draw_secret(Secret& to);
Nonce draw_nonce();
std::uint32_t draw_number();
std::uint64_t draw_id();  // of a process or a job: different from every other

// Zeros that no compiler leaves out.
void wipe(std::span<std::byte> bytes);

// Of the parts one behind the other; no copy of them is left in memory. About 1 microsecond for a few hundred bytes.
Proof prove(const Secret& secret, std::initializer_list<std::span<const std::byte>> parts);
// Takes as long whether the two differ in their first byte or in none.
bool same(const Proof& a, const Proof& b);

}  // namespace paceline
